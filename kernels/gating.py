"""What the delta form adds to a site's read, in two phases: a null source of its own, and a gate.

With α the gate, p the running sum, out the mixture of the shared sources, a the softmax weight of the null
source (its vector is `null`, its logit z, r its inverse rms) and g the gradient of x, a head at a time:

    x = p + α m,  m = (1 − a) out + a null;  D = <g, m>;  the sources' gradients are those of α g
    dα = Σ D;  dz = α a (<g, null> − D)
    dnull = Σ_tokens (α a g + dz r w) − (Σ_tokens,heads dz z) r²/d · null;  dw gets Σ_tokens dz r null
"""

from typing import NamedTuple

import torch
import triton
from torch import Tensor

from headcount.kernels.gate_kernels import gate_backward_kernel, gate_forward_kernel
from headcount.kernels.launch import Launch
from headcount.kernels.launching import on_device, sum_of_programs
from headcount.kernels.tiles import LOG2E, Tiles


class DeltaForm(NamedTuple):
    """The learned part of the delta form, and how many sublayers' outputs make one source."""

    nulls: Tensor  # [N, d] float32
    gates: Tensor  # [N] float32
    block_size: int


class Gating:
    """The gates and null sources of one pass, and the sums over tokens of which their gradients are made."""

    def __init__(self, delta: DeltaForm, queries: Tensor, tiles: Tiles, eps: float, launch: Launch) -> None:
        """queries: [N, d] folded, in the sources' dtype."""
        self.tiles, self.launch = tiles, launch
        self.gates = delta.gates.detach().contiguous()
        self.nulls = delta.nulls.detach().to(queries.dtype).contiguous()
        self.queries = queries.float().view(-1, tiles.H, tiles.DH)
        self.exact = self.nulls.float().view(-1, tiles.H, tiles.DH)
        self.inverse_rms = (self.exact.square().sum((-2, -1)) / tiles.D + eps).rsqrt()[:, None]
        self.logits = (self.queries * self.exact).sum(-1) * self.inverse_rms
        self.logits2 = self.logits * LOG2E.value
        self.sums: Tensor | None = None  # [N, d + 2 H], of sites whose gradient has arrived

    def add(self, site: int, slot: int, base: Tensor, out: Tensor, lse: Tensor) -> Tensor:
        """What the site reads, like `base` [T, d]; the null source is taken into its row of `lse`."""
        x = torch.empty_like(base)
        with on_device(base):
            gate_forward_kernel[(len(base),)](
                base,
                out,
                lse,
                self.nulls,
                self.logits2,
                self.gates,
                x,
                len(base),
                site,
                slot,
                TILES=self.tiles,
                num_warps=self.launch.merge_warps,
            )
        return x

    def take(self, site: int, slot: int, grad: Tensor, out: Tensor, lse: Tensor, delta: Tensor) -> None:
        """The gradient [T, d] of what the site read has arrived: leave D in the site's row of `delta`."""
        if self.sums is None:
            self.sums = self.logits.new_zeros(len(self.nulls), self.tiles.D + 2 * self.tiles.H)
        tokens = len(grad)
        programs = triton.cdiv(tokens, self.launch.norm_tokens)
        sums = self.logits.new_empty(programs, self.sums.shape[1])
        with on_device(grad):
            gate_backward_kernel[(programs,)](
                grad,
                out,
                lse,
                self.nulls,
                self.logits2,
                self.gates,
                delta,
                sums,
                tokens,
                site,
                slot,
                TILES=self.tiles,
                TOKENS=self.launch.norm_tokens,
                STAGES=3,
                num_warps=self.launch.norm_warps,
            )
        sum_of_programs(sums, self.sums[site])

    def gradients(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the folded queries [N, d] (to be added), the null sources [N, d] and the gates [N]."""
        assert self.sums is not None
        width, heads = self.tiles.D, self.tiles.H
        weighted = self.sums[:, :width].reshape(self.exact.shape)
        of_logit, of_gate = self.sums[:, width : width + heads], self.sums[:, width + heads :]
        gates = self.gates[:, None]
        dz = gates * of_logit * self.inverse_rms  # times r
        of_nulls = gates[:, None] * weighted + dz[..., None] * self.queries
        norm = (dz * self.logits).sum(-1, keepdim=True) * self.inverse_rms / width
        of_nulls -= norm[..., None] * self.exact
        return (dz[..., None] * self.exact).flatten(-2), of_nulls.flatten(-2), of_gate.sum(-1)

"""xHC-Flash (arXiv 2607.14530), after the published description: `xhc` with one pass over all N streams for
each block in place of two.

With the symbols of `xhc`, for a block of an attention and an MLP sublayer:

    at its start  s, A, p, pre^attn and pre^MLP, of the streams X as they are: one router for both sublayers
    attention     reads Σ_i pre^attn_i x_i and gives y;  X_A ← X_A + p · (post^attn y)
    MLP           reads Σ_i pre^MLP_i x_i + c y, X as at the start, c = Σ_{j in A} pre^MLP_j p_j post^attn_j;
                  X_A ← res X_A + p · (post^MLP Y)

So the MLP reads Σ_i pre^MLP_i x_i of the streams as attention left them, without a second pass over them.

Start: no baseline's, as `xhc`.

Assumptions: those of `xhc`; the MLP's res and post are made of the active streams as attention left them. The
paper's form for four sublayers, which mixes at the last MLP alone, is not built: it does not say which of its
sublayers' coefficients are shared.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.expanded import ActiveRows, Coefficients, ExpandedStream
from headcount.trainer.residuals.interface import State
from headcount.trainer.residuals.mixing import recomputed

READS = ("streams",)
DIAGNOSTICS = ("read", "mixing", "write", "active")


def label(model: ModelConfig) -> str:
    active = min(4, model.streams // 2)
    return f"xHC-Flash, after the published description, N = {model.streams}, {active} active"


def misfit(model: ModelConfig) -> tuple[str, str] | None:
    if model.streams < 2:
        return "streams", f"got {model.streams}; xhc_flash needs 2 or more"
    return None


def added_parameters(model: ModelConfig) -> int:
    """(3N² + k³ + k² + 4k² + 24)·d a layer, with the biases and scales of its two sublayers."""
    n, k = model.streams, min(4, model.streams // 2)
    maps = (3 * n * n + k**3 + 5 * k * k + 24) * model.d_model
    return model.layers * (maps + 2 * n + k * k + 5 * k + 5)


def added_flops_per_token(model: ModelConfig) -> float:
    """Products with the maps, 2·d for each coefficient and c, and the convolutions; thrice with backward."""
    n, k, width = model.streams, min(4, model.streams // 2), model.d_model
    maps = (3 * n * n + k**3 + 5 * k * k + 24) * width
    coefficients = (2 * n + k * k + 5 * k + 1) * width
    return 6.0 * model.layers * (maps + coefficients)


def kept_per_token(model: ModelConfig) -> float:
    """N states for each sublayer, active ones, outputs, Y, the MLP's input, and the coefficients."""
    n, k, width = model.streams, min(4, model.streams // 2), model.d_model
    vectors = 2 * n + k + 7
    coefficients = 2 * n + k * n + k * k + 6 * k + 1
    return model.layers * (vectors * width + coefficients) - (n - 1) * width


@dataclass
class _Block(ActiveRows):
    """Also what the MLP needs of its block's start: p of the active streams [..., k], what it reads of the
    streams, and c [..., 1].
    """

    share: Tensor | None = None
    mlp_input: Tensor | None = None
    factor: Tensor | None = None


class Stream(ExpandedStream):
    def __init__(self, config: ModelConfig) -> None:
        sites = range(2 * config.layers)
        own = [Coefficients(config, s, routes=s % 2 == 0, mixes=s % 2 == 1) for s in sites]
        super().__init__(config, own)

    def begin(self, embedding: Tensor) -> State:
        return _Block.copies(embedding, self.streams)

    def read(self, state: State, site: int) -> Tensor:
        if site % 2:
            state.prepare(*recomputed(partial(self._mlp, site), state.rows, state.active, state.share))
            x: Tensor = state.mlp_input
            return x
        dtype = state.rows.dtype
        reads, write, active, state.share, factor = recomputed(partial(self._block, site), state.rows)
        state.active, state.factor = active.to(dtype), factor.to(dtype)
        state.prepare(None, write)
        x, state.mlp_input = state.read(reads).unbind(-2)
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        if site % 2:
            state.advance(recomputed(self.sublayers[site].augmented, output))
        else:
            state.mlp_input = state.mlp_input + state.factor * output
            state.advance(output.unsqueeze(-2))

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The coefficients for each token; a block's reads [..., 2, N] are given at its attention site."""
        if site % 2:
            mixing, write = self._mlp(site, state.rows, state.active, state.share)
            return {"mixing": mixing, "write": write}
        reads, write, active, *_ = self._block(site, state.rows)
        return {"read": reads, "write": write, "active": active}

    def _block(self, site: int, rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """At a block's start: reads [..., 2, N], attention's write [..., k, 1], active [..., k, N], p, c."""
        attention, mlp = self.sublayers[site], self.sublayers[site + 1]
        exact = rows.to(exact_dtype(rows.dtype))
        flat = exact.flatten(-2)
        active, share = attention.routing(flat)
        _, write = attention.update(active @ exact, share)
        reads = torch.stack((attention.read(flat), mlp.read(flat)), dim=-2)
        factor = (active @ reads[..., 1, :, None] * write).sum(-2)
        return reads, write, active, share, factor

    def _mlp(self, site: int, rows: Tensor, active: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
        """The MLP's mixing [..., k, k] and write [..., k, K]."""
        exact = rows.to(exact_dtype(rows.dtype))
        mixing, write = self.sublayers[site].update(active.to(exact.dtype) @ exact, share)
        assert mixing is not None
        return mixing, write

"""What `xhc` and `xhc_flash` share: N streams of which k are written, and the coefficients of a sublayer."""

from abc import ABC
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headcount.kernels.definition import exact_dtype
from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import Rows, sinkhorn

KERNELS = (4, 8, 12)
PROJECTION_EPS = 1e-6


@dataclass
class ActiveRows(Rows):
    """The streams [..., N, d] of each token, and which of them are `active`, one-hot [..., k, N]: those alone
    await the output, by a write [..., k, K] and, where there is one, a mixing [..., k, k].
    """

    active: Tensor | None = None

    def advance(self, outputs: Tensor) -> None:
        """Mix the active streams and write Y = outputs [..., K, d] to them; the others stay as they are."""
        assert self.active is not None
        assert self.write is not None
        chosen = self.active @ self.rows
        mixed = chosen if self.mixing is None else self.mixing @ chosen
        is_active = self.active.sum(-2).unsqueeze(-1) > 0
        self.rows = torch.where(is_active, self.active.mT @ (mixed + self.write @ outputs), self.rows)


class ExpandedStream(ResidualStream, ABC):
    """N streams, with the coefficients of each sublayer in `sublayers`; their sum is the end."""

    per_token = False  # an MLP's output is convolved over tokens

    def __init__(self, config: ModelConfig, sublayers: "list[Coefficients]") -> None:
        super().__init__(config)
        self.streams, self.std = config.streams, config.init_std
        self.sublayers: Sequence[Coefficients] = nn.ModuleList(sublayers)  # type: ignore[assignment]

    def finish(self, state: State) -> Tensor:
        end: Tensor = state.rows.sum(-2)
        return end

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        return [(own.router, self.std) for own in self.sublayers if own.router is not None]

    def undecayed(self) -> Iterable[nn.Parameter]:
        return [parameter for own in self.sublayers for parameter in own.undecayed()]


class Coefficients(nn.Module):
    """Of one sublayer, with the equations and assumptions of `xhc`. Its methods take float32 or float64.

    routes, mixes: whether it has a router and a mixing of its own.
    """

    def __init__(self, config: ModelConfig, site: int, routes: bool = True, mixes: bool = True) -> None:
        super().__init__()
        n, width = config.streams, config.d_model
        self.k = min(4, n // 2)
        self.fixed, self.eps = self.k // 2, config.norm_eps
        kernels = KERNELS if site % 2 else ()
        self.components = 1 + len(kernels)
        self.kernels = nn.ParameterList(torch.full((width, size), 1 / size) for size in kernels)
        self.router = nn.Parameter(torch.zeros(n, n * width)) if routes else None
        self.read_map = nn.Parameter(torch.zeros(n, n * width))
        self.mixing_map = nn.Parameter(torch.zeros(self.k**2, self.k * width)) if mixes else None
        self.write_map = nn.Parameter(torch.zeros(self.k * self.components, self.k * width))
        self.scales = nn.Parameter(torch.full((3 if mixes else 2,), 0.01))
        self.read_bias = nn.Parameter(4 * torch.eye(n)[site % n] - 2)
        self.mixing_bias = nn.Parameter(4 * torch.eye(self.k).flatten()) if mixes else None
        temporal = torch.full((self.k, self.components - 1), -4.0)
        self.write_bias = nn.Parameter(torch.cat((torch.zeros(self.k, 1), temporal), -1).flatten())

    def routing(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Which of the streams, [..., N·d], are active, one-hot [..., k, N], and their p [..., k]."""
        assert self.router is not None
        normed = nn.functional.layer_norm(flat, flat.shape[-1:])
        scores = torch.sigmoid(nn.functional.linear(normed, self.router))
        active = self._active(scores)
        share = (active * scores.unsqueeze(-2)).sum(-1)
        return active, torch.cat((torch.ones_like(share[..., : self.fixed]), share[..., self.fixed :]), -1)

    def read(self, flat: Tensor) -> Tensor:
        """The weights [..., N] by which the sublayer reads the streams, [..., N·d]."""
        normed = self._normed(flat)
        return torch.sigmoid(self.scales[0] * nn.functional.linear(normed, self.read_map) + self.read_bias)

    def update(self, chosen: Tensor, share: Tensor) -> tuple[Tensor | None, Tensor]:
        """For active streams chosen [..., k, d] with p = share [..., k]: the mixing [..., k, k], from column
        to row, if it has one, and the write p · post [..., k, K].
        """
        normed = self._normed(chosen.flatten(-2))
        logits = self.scales[-1] * nn.functional.linear(normed, self.write_map) + self.write_bias
        post = 2 * torch.sigmoid(logits)
        write = share.unsqueeze(-1) * post.view(*share.shape, self.components)
        if self.mixing_map is None or self.mixing_bias is None:
            return None, write
        logits = self.scales[1] * nn.functional.linear(normed, self.mixing_map) + self.mixing_bias
        mixing = sinkhorn(logits.view(*share.shape, self.k).mT).mT
        return mixing / mixing.sum(-1, keepdim=True).clamp(min=1), write

    def augmented(self, output: Tensor) -> Tensor:
        """Y [..., tokens, K, d]: the output, and what its convolutions over earlier tokens add to it."""
        exact = output.to(exact_dtype(output.dtype))
        components = [exact]
        for kernel in self.kernels:
            padded = nn.functional.pad(exact.mT, (kernel.shape[-1] - 1, 0))
            component = nn.functional.conv1d(padded, kernel.unsqueeze(1), groups=len(kernel)).mT
            for earlier in components:
                norm = earlier.square().sum(-1, keepdim=True) + PROJECTION_EPS * earlier.shape[-1]
                component = component - (component * earlier).sum(-1, keepdim=True) / norm * earlier
            components.append(component)
        return torch.stack(components, dim=-2).to(output.dtype)

    def undecayed(self) -> list[nn.Parameter]:
        """The scales a and the biases b."""
        biases = (self.read_bias, self.write_bias, self.mixing_bias)
        return [self.scales, *(bias for bias in biases if bias is not None)]

    def _normed(self, flat: Tensor) -> Tensor:
        return nn.functional.rms_norm(flat, flat.shape[-1:], eps=self.eps)

    def _active(self, scores: Tensor) -> Tensor:
        routed = torch.topk(scores.detach()[..., self.fixed :], self.k - self.fixed).indices + self.fixed
        fixed = torch.arange(self.fixed, device=scores.device).expand(*routed.shape[:-1], -1)
        streams = torch.arange(scores.shape[-1], device=scores.device)
        return (torch.cat((fixed, routed), -1).unsqueeze(-1) == streams).to(scores.dtype)

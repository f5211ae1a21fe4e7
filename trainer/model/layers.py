"""The model's small parts. Parameters stay in their own precision and are cast to that of the activations.

Each part has a plain form, and one for training passes on a GPU (`working`, set by `Transformer.speed_up`).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcount.trainer.compilation import compiled
from headcount.trainer.config import ModelConfig
from headcount.trainer.model.products import Matrix, WorkingMatrices


class Linear(nn.Module):
    """x Wᵀ, plus a bias that starts at 0 where there is one. The weight is left for `draw_parameters`."""

    bias: nn.Parameter | None

    def __init__(self, inputs: int, outputs: int, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.register_parameter("bias", nn.Parameter(torch.zeros(outputs)) if bias else None)
        self.working: Matrix | None = None

    def forward(self, x: Tensor, place: Tensor | None = None) -> Tensor:
        """In the form for training passes the product is written to `place`, if that is given."""
        if self.working is not None and torch.is_grad_enabled():
            product = self.working(x, place)
            return product if self.bias is None else product + self.bias.to(x.dtype)
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))

    def speed_up(self, matrices: WorkingMatrices) -> None:
        self.working = matrices.matrix(self.weight)


class RMSNorm(nn.Module):
    """x / √(mean x² + eps) over the last dimension, times a weight that starts at 1."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.compiled = False

    def forward(self, x: Tensor) -> Tensor:
        norm = compiled(rms_norm) if self.compiled and torch.is_grad_enabled() else rms_norm
        return norm(x, self.weight, self.eps)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x [..., width] as `RMSNorm` norms it, by a weight [width] of any type."""
    return F.rms_norm(x, weight.shape, weight.to(x.dtype), eps)


class MLP(nn.Module):
    """SwiGLU (Shazeer 2020, arXiv 2002.05202): down(silu(gate x) · up x)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.gate = Linear(config.d_model, config.d_ff)
        self.up = Linear(config.d_model, config.d_ff)
        self.down = Linear(config.d_ff, config.d_model)
        self.working: Working | None = None

    def forward(self, x: Tensor, place: Tensor | None = None) -> Tensor:
        x = self.norm(x)
        if self.working is not None and torch.is_grad_enabled():
            gate_and_up = self.working.product(x)
            gated = (compiled(gate_halves) if self.working.compiled else gate_halves)(gate_and_up)
        else:
            gated = F.silu(self.gate(x)) * self.up(x)
        output: Tensor = self.down(gated, place)
        return output

    def speed_up(self, matrices: WorkingMatrices, compile: bool) -> None:
        self.working = Working(matrices.matrix(self.gate.weight, self.up.weight), compile)


class Working(NamedTuple):
    """How a sublayer multiplies by several weights at once, and whether what follows is compiled."""

    product: Matrix
    compiled: bool


def gate_halves(gate_and_up: Tensor) -> Tensor:
    """silu(first half) · second half, over the last dimension."""
    gate, up = gate_and_up.chunk(2, dim=-1)
    return F.silu(gate) * up

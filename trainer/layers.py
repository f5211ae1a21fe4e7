"""The model's small parts. Parameters stay in their own precision and are cast to that of the activations."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig


class Linear(nn.Module):
    """x Wᵀ, without bias. The weight is left for `draw_parameters`."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


class RMSNorm(nn.Module):
    """x / √(mean x² + eps) over the last dimension, times a weight that starts at 1."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.weight.shape, self.weight.to(x.dtype), self.eps)


class MLP(nn.Module):
    """SwiGLU (Shazeer 2020, arXiv 2002.05202): down(silu(gate x) · up x)."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.gate = Linear(config.d_model, config.d_ff)
        self.up = Linear(config.d_model, config.d_ff)
        self.down = Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        output: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return output

"""DeepLoop (arXiv 2607.13491), after the published description: a post-norm trunk for weights used in loops.

    x_{i+1} = RMSNorm(α x_i + f(RMSNorm(x_i)))

The K blocks are passed through R = `loops` times. With N = K·R visited blocks, α = √(2N), and the branch
matrices' initial std is multiplied by β = 1/√(8N); nothing else depends on R.

Start: no baseline's. At R = 1 too it is a post-norm trunk, not the pre-norm control, and not DeepNorm, whose
exponents are 1/4.

Assumptions: one loop is a pass through all blocks; a sublayer's post norm is shared by its visits, as its
weights are; β scales value, output and all feed-forward matrices (DeepNet's convention; the description names
none); the final norm before the head stays.
"""

import math

from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.model.layers import RMSNorm
from headcount.trainer.residuals.interface import ResidualStream, State

READS = ("loops",)
DIAGNOSTICS = ()


def label(model: ModelConfig) -> str:
    return f"DeepLoop, after the published description, R = {model.loops}"


def added_parameters(model: ModelConfig) -> int:
    """The post norms."""
    return 2 * model.layers * model.d_model


def added_flops_per_token(model: ModelConfig) -> float:
    """Norms and the scaled state are left out, as norms are everywhere; the loops are counted as blocks."""
    return 0.0


def kept_per_token(model: ModelConfig) -> float:
    """What the post norms keep, twice d each; and each further pass keeps all of a pass's activations."""
    kv_width = model.kv_heads * model.width_of_head
    block = 7 * model.d_model + 4 * model.heads * model.width_of_head + 3 * kv_width + 4 * model.d_ff
    return model.layers * (4 * model.d_model * model.loops + block * (model.loops - 1))


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        visited = config.layers * config.loops
        self.loops = config.loops
        self.alpha, self.beta = math.sqrt(2 * visited), 1 / math.sqrt(8 * visited)
        self.norms = nn.ModuleList(RMSNorm(config.d_model, config.norm_eps) for _ in range(2 * config.layers))

    def begin(self, embedding: Tensor) -> State:
        return [embedding]

    def read(self, state: State, site: int) -> Tensor:
        x: Tensor = state[0]
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        state[0] = self.norms[site % len(self.norms)](self.alpha * state[0] + output)

    def finish(self, state: State) -> Tensor:
        return self.read(state, -1)

    def draw_factor(self, name: str) -> float:
        branch = ("value", "output", "gate", "up", "down")
        return self.beta if name.endswith(tuple(f".{matrix}.weight" for matrix in branch)) else 1.0

"""DenseFormer (arXiv 2402.02622): after each block, a weighted average over depth.

After block l the state becomes Σ_{j ≤ l+1} w_lj X_j, where X_0 is the embedding and X_{j+1} the state behind
block j *before* its averaging; the average is what the next block reads. The weights are scalars, static.

Start: w_l is 1 on the newest and 0 elsewhere, so the model is the additive one bit for bit.

Assumptions: every block averages, over all before it (dilation 1, period 1); weight decay spares the weights,
as it would otherwise shrink the path that carries everything.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State
from headcount.trainer.residuals.mixing import weighted_sum

READS = ()
DIAGNOSTICS = ("depth_weights",)


def label(model: ModelConfig) -> str:
    return "DenseFormer"


def added_parameters(model: ModelConfig) -> int:
    """Block l, from 0, averages l + 2 states."""
    return model.layers * (model.layers + 3) // 2


def added_flops_per_token(model: ModelConfig) -> float:
    """2·d for each state averaged, and twice as much backward."""
    return 6.0 * model.d_model * (model.layers * (model.layers + 3) // 2)


def kept_per_token(model: ModelConfig) -> float:
    """The states behind the blocks, before they are averaged."""
    return model.layers * model.d_model


@dataclass
class _History:
    x: Tensor
    states: list[Tensor]


class Stream(ResidualStream):
    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.depth_weights = nn.ParameterList(torch.eye(n + 2)[-1] for n in range(config.layers))

    def begin(self, embedding: Tensor) -> State:
        return _History(embedding, [embedding])

    def read(self, state: State, site: int) -> Tensor:
        x: Tensor = state.x
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        state.x = state.x + output
        if site % 2:
            state.states.append(state.x)
            state.x = weighted_sum(state.states, self.depth_weights[site // 2])

    def finish(self, state: State) -> Tensor:
        return self.read(state, -1)

    def undecayed(self) -> Iterable[nn.Parameter]:
        return list(self.depth_weights)

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """The weights that made what is read; none before the first block has ended."""
        return {"depth_weights": self.depth_weights[site // 2 - 1]} if site >= 2 else {}

"""The plain pre-norm residual stream, every study's control: each output is added to a running sum."""

from torch import Tensor

from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State

READS = ()


def added_parameters(model: ModelConfig) -> int:
    return 0


def added_flops_per_token(model: ModelConfig) -> float:
    return 0.0


class Stream(ResidualStream):
    def begin(self, embedding: Tensor) -> State:
        return [embedding]

    def read(self, state: State, site: int) -> Tensor:
        return state[0]

    def write(self, state: State, site: int, output: Tensor) -> None:
        state[0] = state[0] + output

    def finish(self, state: State) -> Tensor:
        return state[0]

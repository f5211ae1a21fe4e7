"""The plain pre-norm residual stream, every study's control: each output is added to a running sum."""

from torch import Tensor

from headcount.trainer.config import ModelConfig
from headcount.trainer.residuals.interface import ResidualStream, State

READS = ()
DIAGNOSTICS = ()


def label(model: ModelConfig) -> str:
    return "additive"


def added_parameters(model: ModelConfig) -> int:
    return 0


def added_flops_per_token(model: ModelConfig) -> float:
    return 0.0


def kept_per_token(model: ModelConfig) -> float:
    return 0.0


class Stream(ResidualStream):
    def begin(self, embedding: Tensor) -> State:
        return [embedding]

    def read(self, state: State, site: int) -> Tensor:
        x: Tensor = state[0]
        return x

    def write(self, state: State, site: int, output: Tensor) -> None:
        state[0] = state[0] + output

    def finish(self, state: State) -> Tensor:
        return self.read(state, -1)

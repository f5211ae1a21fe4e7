"""What a residual stream is. The model calls these four, in this order, on every forward pass:

    state = stream.begin(embedding)
    for each sublayer `site`, from 0:  x = stream.read(state, site);  stream.write(state, site, sublayer(x))
    x = stream.finish(state)

Each sublayer norms what it reads, and the final norm and the head follow `finish`. A stream is one file of
this folder: a subclass named `Stream`, and above it what planning must know without torch (see `registry`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from torch import Tensor, nn

from headcount.trainer.config import ModelConfig

State = list[Tensor]
"""The depth history, as far as the stream keeps it: tensors [..., d_model], oldest first."""


class ResidualStream(nn.Module, ABC):
    """Its parameters are part of the model, under `stream.`; its matrices are drawn like all others."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

    @abstractmethod
    def begin(self, embedding: Tensor) -> State:
        """The history that holds the embedding alone."""

    @abstractmethod
    def read(self, state: State, site: int) -> Tensor:
        """What sublayer `site` reads: attention at even sites, the MLP at odd ones."""

    @abstractmethod
    def write(self, state: State, site: int, output: Tensor) -> None:
        """Take in what sublayer `site` produced, changing `state` but no tensor in it."""

    @abstractmethod
    def finish(self, state: State) -> Tensor:
        """What the final norm and the head read."""

    def drawn_vectors(self) -> Iterable[nn.Parameter]:
        """Vectors that are drawn as matrices are. All others keep the value they were made with."""
        return ()

"""What a residual stream is. The model calls these, in this order, on every forward pass:

    state = stream.begin(embedding)
    for each sublayer `site`, from 0:  y = sublayer(stream.read(state, site));  stream.write(state, site, y)
    x = stream.finish(state)

Each sublayer norms what it reads, and the final norm and the head follow `finish`. At the even sites, the
attention sublayers, the model calls `attend` for y. A stream is one file of this folder: a subclass named
`Stream`, and above it what planning must know without torch (see `registry`).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from headcount.kernels import Choice
from headcount.trainer.config import ModelConfig
from headcount.trainer.model.attention import Attention

State = Any
"""What a stream keeps of the depth history during one forward pass. Only the stream itself looks into it."""


class ResidualStream(nn.Module, ABC):
    """Its parameters are part of the model, under `stream.`, and keep the values they are made with unless
    `drawn` names them."""

    per_token = True
    """Whether a token's stream needs no other token's: then generation has keys and values alone to cache."""

    loops = 1
    """Passes through the stack of blocks; sites are numbered on from pass to pass."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()

    @abstractmethod
    def begin(self, embedding: Tensor) -> State:
        """The history that holds the embedding [..., d_model] alone."""

    @abstractmethod
    def read(self, state: State, site: int) -> Tensor:
        """What sublayer `site` reads: attention at even sites, the MLP at odd ones."""

    @abstractmethod
    def write(self, state: State, site: int, output: Tensor) -> None:
        """Take in what sublayer `site` produced, changing `state` but no tensor in it."""

    def place(self, state: State) -> Tensor | None:
        """Where the output that is due may be computed, [..., d_model], to save `write` a copy; None where it
        may lie anywhere."""
        return None

    @abstractmethod
    def finish(self, state: State) -> Tensor:
        """What the final norm and the head read."""

    def attend(self, state: State, site: int, attention: Attention, rotation: Tensor) -> Tensor:
        """What attention produces at `site`; for streams that give it more than one vector a token."""
        output: Tensor = attention(self.read(state, site), rotation, self.place(state))
        return output

    def drawn(self) -> Iterable[tuple[nn.Parameter, float]]:
        """The stream's own parameters to which noise is added before training, each with its std."""
        return ()

    def draw_factor(self, name: str) -> float:
        """What multiplies the draw that all streams share, of the model's weight `name`."""
        return 1.0

    def undecayed(self) -> Iterable[nn.Parameter]:
        """Parameters that weight decay spares."""
        return ()

    def routing(self, source: Tensor) -> Choice | None:
        """How `headcount.kernels` routes sources like `source` [..., d_model]; none where it does not."""
        return None

    def diagnose(self, state: State, site: int) -> dict[str, Tensor]:
        """Figures of the read at `site`, by the names in the file's DIAGNOSTICS, when `read` or `finish` is
        due; the read before the head, where the stream has one, is the site after the last."""
        return {}

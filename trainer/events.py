"""What a training job tells while it runs: plain records, in order. Imports without torch."""

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Started:
    """The first event of an attempt. `step` is 0, or the step of the checkpoint it goes on from."""

    step: int
    environment: dict[str, Any]
    """What may change bits or speed but not the job: hardware, versions, threads, kernel, micro-batch."""


@dataclass(frozen=True)
class Progress:
    """Training after `step` updates, about once a second."""

    step: int
    loss: float
    """Of the last batch, nats a token."""
    learning_rate: float
    gradient_norm: float
    tokens_per_second: float


@dataclass(frozen=True)
class Evaluation:
    """Validation after `step` updates, always on the same windows."""

    step: int
    loss: float
    """Mean over the windows, nats a token."""
    window_losses: tuple[float, ...] = ()
    """One a window; kept for the evaluations of the tail."""


@dataclass(frozen=True)
class Routing:
    """How depth routing mixes after `step` updates, on the first validation window; by site, from 0."""

    step: int
    entropy: tuple[float, ...]
    """Of the weights over sources, nats, mean over tokens and heads: ln(sources) where all weigh the same."""
    top_source: tuple[int, ...]
    """The source with the largest mean weight."""


@dataclass(frozen=True)
class Spike:
    """A rise of the training loss that recovered: what would have been divergence had it lasted."""

    step: int
    """The first update whose smoothed loss was above the limit."""
    steps: int
    """How many were."""
    highest: float
    """The highest smoothed loss, as a multiple of the best before."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint lies complete under the job's folder, in `checkpoints`."""

    step: int
    file: str
    sha256: str


@dataclass(frozen=True)
class Artifact:
    """A file of the result lies complete in the job's folder."""

    purpose: Literal["model", "curve", "routing"]
    """`curve`: the training loss of every update. `routing`: every `Routing`, one a line."""
    step: int
    file: str
    sha256: str


@dataclass(frozen=True)
class Result:
    """The last event: the job's outcome."""

    outcome: Literal["finished", "diverged"]
    step: int
    tail_mean: float | None
    """Mean of the evaluations in the last quarter of the steps; none where the job diverged."""
    measurements: dict[str, float]
    """By name; see docs/training.md."""


Event = Started | Progress | Evaluation | Routing | Spike | Checkpoint | Artifact | Result


def to_record(event: Event) -> dict[str, Any]:
    """A plain dictionary with the event's kind under `kind`; survives JSON but for NaN and infinity."""
    return {"kind": type(event).__name__.lower(), **asdict(event)}

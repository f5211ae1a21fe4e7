"""What a training job tells while it runs: plain records, in order. Imports without torch."""

from dataclasses import asdict, dataclass, fields
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
class Checkpoint:
    """A checkpoint lies complete under the attempt's folder."""

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
    """Of the whole attempt, by name: `tokens_per_second`, `seconds`, `peak_memory_bytes`, `parameters`."""


Event = Started | Progress | Evaluation | Checkpoint | Result

_KINDS: dict[str, type] = {k.__name__.lower(): k for k in (Started, Progress, Evaluation, Checkpoint, Result)}


def to_record(event: Event) -> dict[str, Any]:
    """A plain dictionary with the event's kind under `kind`; survives JSON but for NaN and infinity."""
    return {"kind": type(event).__name__.lower(), **asdict(event)}


def from_record(record: dict[str, Any]) -> Event:
    """The inverse of `to_record`."""
    kind = _KINDS[record["kind"]]
    values = {f.name: record[f.name] for f in fields(kind)}
    if kind is Evaluation:
        values["window_losses"] = tuple(values["window_losses"])
    event: Event = kind(**values)
    return event

"""`headcount replay`: a stored job trained again as it was, and held against what the store has of it."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import select

from headcount.orchestrator.artifacts.datasets import dataset_of
from headcount.orchestrator.following.overview import attempts_of, find_job
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import touch_sweeps_of
from headcount.orchestrator.store.models import (
    RESULT_STATES,
    Artifact,
    Attempt,
    Evaluation,
    Job,
    Measurement,
)
from headcount.sweeps.planning.identity import job_id
from headcount.trainer import events
from headcount.trainer.config import NUMERICS, FieldError, JobConfig, job_from_fields
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution

TOLERANCE = 0.005
"""Nats. A different card or micro-batch rounds differently, and a trajectory that was rounded differently
ends about as far away as another seed's."""

Losses = dict[int, tuple[float | None, tuple[float, ...]]]
"""Step to loss, and the losses by window where they are kept."""


@dataclass(frozen=True)
class Stretch:
    """Steps that were trained in one environment, from `start` to the next stretch."""

    start: int
    environment: dict[str, Any]


@dataclass(frozen=True)
class Record:
    """What the store has of a job with a result."""

    id: str
    config: JobConfig
    fingerprint: str
    numerics: int
    state: str
    diverged_step: int | None
    losses: Losses
    stretches: tuple[Stretch, ...]
    model_hash: str | None


@dataclass(frozen=True)
class Verdict:
    """How a replay compares."""

    outcome: Literal["bitwise equal", "within tolerance", "different"]
    lines: tuple[str, ...]
    """What was compared, and what differed."""
    tail_mean: float | None = None
    """Of the replay, where it finished."""


def read_record(store: Store, prefix: str) -> Record:
    """The job whose id begins so. Raises `UserError` where it has no result, or cannot be trained here."""
    with store.read() as session:
        job = find_job(session, prefix)
        if job.kind != "train" or job.state not in RESULT_STATES:
            what = "was trained elsewhere" if job.kind == "external" else f"is {job.state}"
            raise UserError(f"job {job.id[:12]} {what}; only a training job with a result can be replayed")
        rows = session.execute(
            select(Evaluation.step, Evaluation.loss, Evaluation.window_losses).where(
                Evaluation.job_id == job.id
            )
        )
        model = select(Artifact.sha256).where(Artifact.job_id == job.id, Artifact.kind == "model")
        return Record(
            id=job.id,
            config=_config(job),
            fingerprint=job.fingerprint,
            numerics=job.numerics,
            state=job.state,
            diverged_step=job.diverged_step,
            losses={step: (loss, tuple(windows or ())) for step, loss, windows in rows},
            stretches=stretches(attempts_of(session, job)),
            model_hash=session.scalar(model),
        )


def _config(job: Job) -> JobConfig:
    fields = {name: value for name, value in job.config.items() if name != "seed"}
    try:
        return job_from_fields(fields, job.seed)
    except FieldError as error:
        raise UserError(
            f"job {job.id[:12]} is of another Headcount, whose fields this one does not read: {error}"
        ) from error


def stretches(attempts: list[Attempt]) -> tuple[Stretch, ...]:
    """The environments of the steps that stand: an attempt overrides what was trained beyond its start."""
    found: list[Stretch] = []
    for attempt in attempts:
        if attempt.start_step is None or attempt.environment is None:
            continue  # it ended before it trained
        found = [stretch for stretch in found if stretch.start < attempt.start_step]
        found.append(Stretch(attempt.start_step, attempt.environment))
    return tuple(found)


def replay(
    record: Record,
    settings: Settings,
    device: Literal["auto", "cpu", "cuda"],
    tell: Callable[[events.Event], None],
    tolerance: float = TOLERANCE,
    micro_batch: int | None = None,
) -> Verdict:
    """Train the job again in a folder that is deleted afterwards; `tell` is told every event.

    `micro_batch` takes the place of those that were recorded. Raises `UserError` where its data or the device
    is not here.
    """
    if micro_batch is not None:
        parts = record.stretches or (Stretch(0, {}),)
        changed = tuple(Stretch(p.start, p.environment | {"micro_batch": micro_batch}) for p in parts)
        again = replace(record, stretches=changed)
    else:
        again = record
    try:
        dataset = dataset_of(record.fingerprint, settings)
    except UserError as error:
        raise UserError(
            f"it was trained on {record.config.data.source!r}, which is not here: {error}"
        ) from error
    told: list[events.Event] = []
    with tempfile.TemporaryDirectory(prefix="replay-", dir=settings.home) as folder:
        for event in _train(again, dataset, Path(folder), device):
            told.append(event)
            tell(event)
    found = compare(record, told, tolerance)
    end = next(e for e in told if isinstance(e, events.Result))
    return replace(found, tail_mean=end.tail_mean)


def keep(store: Store, record: Record, verdict: Verdict, micro_batch: int | None) -> None:
    """Store how far the replay's tail mean is from the job's as a measurement: for the noise floor.

    Raises `UserError` where either did not finish.
    """
    with store.write() as session:
        job = session.get_one(Job, record.id)
        if job.tail_mean is None or verdict.tail_mean is None:
            raise UserError(
                f"job {record.id[:12]}: one of the two did not finish, so there is nothing to keep"
            )
        name = "repeat.same" if micro_batch is None else "repeat.micro_batch"
        apart = verdict.tail_mean - job.tail_mean
        session.merge(Measurement(job_id=job.id, name=name, value=apart))
        touch_sweeps_of(session, [job.id])


def _train(
    record: Record, dataset: Any, folder: Path, device: Literal["auto", "cpu", "cuda"]
) -> Iterator[events.Event]:
    """Stretch by stretch, each with the micro-batch of then, from the checkpoint of the one before."""
    from headcount.trainer.loop import train

    parts = record.stretches or (Stretch(0, {}),)
    for part, after in zip(parts, (*parts[1:], None), strict=True):
        execution = _execution(part.environment, device)
        if after is None:
            yield from train(record.config, dataset, folder=folder, execution=execution)
            return
        steps = after.start - part.start
        # `train` asks once before each update
        asked = iter(range(steps))
        yield from train(
            record.config,
            dataset,
            folder=folder,
            execution=execution,
            stop=lambda asked=asked: next(asked, None) is None,  # type: ignore[misc]
        )


def _execution(environment: dict[str, Any], device: Literal["auto", "cpu", "cuda"]) -> Execution:
    if device == "auto" and environment.get("device") == "cpu":
        device = "cpu"
    execution = Execution(device=device, threads=environment.get("threads", 1))
    execution = replace(execution, exact=environment.get("exact", True))
    return replace(execution, micro_batch=environment.get("micro_batch"), gpus=environment.get("gpus", 1))


def compare(record: Record, told: list[events.Event], tolerance: float) -> Verdict:
    """Hold what a replay told against the record."""
    again: Losses = {e.step: (e.loss, e.window_losses) for e in told if isinstance(e, events.Evaluation)}
    result = next(e for e in told if isinstance(e, events.Result))
    same_end = result.outcome == record.state and (
        record.state == "finished" or result.step == record.diverged_step
    )
    unequal = sorted(
        step
        for step in record.losses.keys() | again.keys()
        if not _is_equal(record.losses.get(step), again.get(step))
    )
    apart = [_apart(record.losses.get(step), again.get(step)) for step in unequal]
    lines = [f"{len(record.losses) - len(unequal)} of {len(record.losses)} evaluations are equal bit for bit"]
    if not same_end:
        lines.append(f"it {result.outcome} at step {result.step}; stored is {_end_words(record)}")
    if unequal:
        at = apart.index(max(apart))
        lines.append(
            f"they differ from step {unequal[0]}; by {apart[at]:.3g} nats at most, at step {unequal[at]}"
        )
    model = next((e for e in told if isinstance(e, events.Artifact) and e.purpose == "model"), None)
    if model is not None and record.model_hash == model.sha256:
        lines.append("the model's file has the same hash")
    lines += _what_differs(record, told)
    if same_end and not unequal:
        return Verdict("bitwise equal", tuple(lines))
    within = same_end and max(apart, default=0.0) <= tolerance
    return Verdict("within tolerance" if within else "different", tuple(lines))


def _is_equal(stored: Any, again: Any) -> bool:
    if stored is None or again is None:
        return False
    windows = stored[1] == again[1] or not (stored[1] and again[1])
    return bool(stored[0] == again[0] and windows)


def _apart(stored: Any, again: Any) -> float:
    if stored is None or again is None or stored[0] is None:
        return float("inf")
    return float(abs(stored[0] - again[0]))


def _end_words(record: Record) -> str:
    return "finished" if record.state == "finished" else f"diverged at step {record.diverged_step}"


def _what_differs(record: Record, told: list[events.Event]) -> Iterator[str]:
    """Configuration and environment, then against now."""
    if record.numerics != NUMERICS:
        yield f"numerics: {record.numerics} then, {NUMERICS} now: this Headcount trains to other numbers"
    elif job_id(record.config, record.fingerprint) != record.id:
        yield "config: the stored fields are another job to this Headcount"
    now = [event for event in told if isinstance(event, events.Started)]
    for stretch, started in zip(record.stretches, now, strict=False):
        names = sorted(stretch.environment.keys() | started.environment.keys())
        for name in names:
            then, here = stretch.environment.get(name), started.environment.get(name)
            if then != here:
                yield f"environment from step {stretch.start}: {name} was {then}, is {here}"

"""Jobs: the list of a sweep's, and everything known about one but its curves."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_job, find_sweep
from headcount.api.results.losses import finite
from headcount.orchestrator.store.models import (
    Attempt,
    Dataset,
    Job,
    Measurement,
    Sweep,
    SweepJob,
)


class JobCursor(NamedTuple):
    """Where a page of jobs ended."""

    position: int
    job_id: str


@dataclass(frozen=True)
class JobSummary:
    """One line of a sweep's list of jobs."""

    id: str
    kind: str
    cell: int
    seed: int
    state: str
    step: int
    steps: int | None
    tail_mean: float | None
    diverged_step: int | None
    wanted: bool
    paused: bool
    priority: int
    position: int
    ended: datetime | None


@dataclass(frozen=True)
class JobPage:
    """Jobs in the order of dispatch; `next` is where the following page starts, None on the last."""

    jobs: tuple[JobSummary, ...]
    next: JobCursor | None


def jobs(
    session: Session,
    name: str,
    *,
    state: str | None = None,
    cell: int | None = None,
    seed: int | None = None,
    after: JobCursor | None = None,
    limit: int = 100,
) -> JobPage:
    """At most `limit` jobs of a sweep in the order of dispatch, after a cursor. Raises `NotFoundError`."""
    sweep = find_sweep(session, name)
    query = (
        select(Job, SweepJob)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .where(SweepJob.sweep_id == sweep.id)
        .order_by(SweepJob.position, SweepJob.job_id)
        .limit(limit + 1)
    )
    for column, value in ((Job.state, state), (SweepJob.cell_id, cell), (Job.seed, seed)):
        if value is not None:
            query = query.where(column == value)
    if after is not None:
        query = query.where(tuple_(SweepJob.position, SweepJob.job_id) > tuple_(*after))
    found = tuple(_summary(job, wish) for job, wish in session.execute(query))
    page = found[:limit]
    last = page[-1] if len(found) > limit else None
    return JobPage(page, JobCursor(last.position, last.id) if last else None)


def _summary(job: Job, wish: SweepJob) -> JobSummary:
    return JobSummary(
        id=job.id,
        kind=job.kind,
        cell=wish.cell_id,
        seed=job.seed,
        state=job.state,
        step=job.step,
        steps=job.config.get("train.steps"),
        tail_mean=finite(job.tail_mean),
        diverged_step=job.diverged_step,
        wanted=wish.wanted,
        paused=wish.paused,
        priority=wish.priority,
        position=wish.position,
        ended=job.ended,
    )


@dataclass(frozen=True)
class Wish:
    """What one sweep wants of the job."""

    sweep: str
    cell: int
    control_id: str | None
    """The job it is paired with in that sweep."""
    wanted: bool
    paused: bool
    priority: int


@dataclass(frozen=True)
class Difference:
    """A field in which the job is not like its control."""

    field: str
    job: Any
    control: Any


@dataclass(frozen=True)
class AttemptView:
    """One try at the job."""

    number: int
    slot: str
    node: str
    start_step: int | None
    started: datetime
    ended: datetime | None
    cause: str | None
    """None while it runs."""
    message: str | None
    environment: dict[str, Any]
    """Hardware, versions, threads, kernel, micro-batch; empty until the slot has told."""


@dataclass(frozen=True)
class JobView:
    """One job, whoever wants it."""

    id: str
    kind: str
    parent_id: str | None
    seed: int
    state: str
    step: int
    steps: int | None
    tail_mean: float | None
    diverged_step: int | None
    parameters: int
    flops: float
    numerics: int
    fingerprint: str
    data: str
    """The name of the data set; empty where it is not registered."""
    created: datetime
    ended: datetime | None
    config: dict[str, Any]
    """Every field by its dotted name."""
    control_id: str | None
    """The job it is paired with in the first sweep that pairs it."""
    control_tail_mean: float | None
    difference: tuple[Difference, ...]
    wishes: tuple[Wish, ...]
    attempts: tuple[AttemptView, ...]
    measurements: dict[str, float | None]


def job_view(session: Session, job_id: str) -> JobView:
    """One job with its attempts and its difference from its control. Raises `NotFoundError`."""
    job = find_job(session, job_id)
    wishes = tuple(
        Wish(sweep, w.cell_id, w.control_job_id, w.wanted, w.paused, w.priority)
        for w, sweep in session.execute(
            select(SweepJob, Sweep.name)
            .join(Sweep, Sweep.id == SweepJob.sweep_id)
            .where(SweepJob.job_id == job_id)
            .order_by(SweepJob.sweep_id)
        )
    )
    control_id = next((w.control_id for w in wishes if w.control_id), None)
    control = session.get(Job, control_id) if control_id else None
    attempts = session.scalars(select(Attempt).where(Attempt.job_id == job_id).order_by(Attempt.number))
    measured = session.execute(
        select(Measurement.name, Measurement.value)
        .where(Measurement.job_id == job_id)
        .order_by(Measurement.name)
    )
    return JobView(
        id=job.id,
        kind=job.kind,
        parent_id=job.parent_id,
        seed=job.seed,
        state=job.state,
        step=job.step,
        steps=job.config.get("train.steps"),
        tail_mean=finite(job.tail_mean),
        diverged_step=job.diverged_step,
        parameters=job.parameters,
        flops=job.flops,
        numerics=job.numerics,
        fingerprint=job.fingerprint,
        data=session.scalar(select(Dataset.name).where(Dataset.fingerprint == job.fingerprint)) or "",
        created=job.created,
        ended=job.ended,
        config=dict(job.config),
        control_id=control.id if control else None,
        control_tail_mean=finite(control.tail_mean) if control else None,
        difference=_difference(job.config, control.config) if control else (),
        wishes=wishes,
        attempts=tuple(_attempt(a) for a in attempts),
        measurements={name: finite(value) for name, value in measured},
    )


def _attempt(attempt: Attempt) -> AttemptView:
    return AttemptView(
        number=attempt.number,
        slot=attempt.slot,
        node=attempt.node,
        start_step=attempt.start_step,
        started=attempt.started,
        ended=attempt.ended,
        cause=attempt.cause,
        message=attempt.message,
        environment=dict(attempt.environment or {}),
    )


def _difference(job: dict[str, Any], control: dict[str, Any]) -> tuple[Difference, ...]:
    names = sorted({*job, *control})
    return tuple(Difference(n, job.get(n), control.get(n)) for n in names if job.get(n) != control.get(n))

"""Jobs: the list of a sweep's, and everything known about one but its curves."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
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
class JobState:
    """How far one job is, and what came of it."""

    id: str
    kind: str
    seed: int
    state: str
    step: int
    steps: int | None
    tail_mean: float | None
    diverged_step: int | None
    ended: datetime | None


_STATE: tuple[Any, ...] = (
    Job.id,
    Job.kind,
    Job.seed,
    Job.state,
    Job.step,
    Job.config["train.steps"].as_integer(),
    Job.tail_mean,
    Job.diverged_step,
    Job.ended,
)
"""The columns of `JobState`, in its order."""


def _state(values: Sequence[Any]) -> dict[str, Any]:
    found = dict(zip((f.name for f in fields(JobState)), values, strict=True))
    return found | {"tail_mean": finite(found["tail_mean"])}


@dataclass(frozen=True)
class JobSummary(JobState):
    """One line of a sweep's list of jobs."""

    cell: int
    wanted: bool
    paused: bool
    priority: int
    position: int


@dataclass(frozen=True)
class WishedJob(JobState):
    """One line of the list of all jobs: a job that two sweeps wish for has a line for each."""

    sweep: str


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
    wish = (SweepJob.cell_id, SweepJob.wanted, SweepJob.paused, SweepJob.priority, SweepJob.position)
    query = (
        select(*_STATE, *wish)
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
    found = []
    for row in session.execute(query):
        cell_id, wanted, paused, priority, position = row[len(_STATE) :]
        found.append(
            JobSummary(
                **_state(row[: len(_STATE)]),
                cell=cell_id,
                wanted=wanted,
                paused=paused,
                priority=priority,
                position=position,
            )
        )
    page = tuple(found[:limit])
    last = page[-1] if len(found) > limit else None
    return JobPage(page, JobCursor(last.position, last.id) if last else None)


@dataclass(frozen=True)
class AllJobsPage:
    """Jobs of every sweep; `next` is where the following page starts, None on the last."""

    jobs: tuple[WishedJob, ...]
    next: JobCursor | None
    """With the sweep's id as its position."""


def all_jobs(
    session: Session, *, state: str | None = None, after: JobCursor | None = None, limit: int = 100
) -> AllJobsPage:
    """At most `limit` jobs of all sweeps, those of the newest sweep first, after a cursor."""
    order = (SweepJob.sweep_id, SweepJob.job_id)  # as the primary key has them
    query = (
        select(*_STATE, Sweep.name, SweepJob.sweep_id)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .join(Sweep, Sweep.id == SweepJob.sweep_id)
        .order_by(*(column.desc() for column in order))
        .limit(limit + 1)
    )
    if state is not None:
        query = query.where(Job.state == state)
    if after is not None:
        query = query.where(tuple_(*order) < tuple_(*after))
    rows = session.execute(query).all()
    page = tuple(WishedJob(**_state(row[:-2]), sweep=row[-2]) for row in rows[:limit])
    return AllJobsPage(page, JobCursor(rows[limit - 1][-1], page[-1].id) if len(rows) > limit else None)


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
class JobView(JobState):
    """One job, whoever wants it."""

    parent_id: str | None
    parameters: int
    flops: float
    numerics: int
    fingerprint: str
    data: str
    """The name of the data set; empty where it is not registered."""
    created: datetime
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
    state = session.execute(select(*_STATE).where(Job.id == job_id)).one()
    return JobView(
        **_state(state),
        parent_id=job.parent_id,
        parameters=job.parameters,
        flops=job.flops,
        numerics=job.numerics,
        fingerprint=job.fingerprint,
        data=session.scalar(select(Dataset.name).where(Dataset.fingerprint == job.fingerprint)) or "",
        created=job.created,
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

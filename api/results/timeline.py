"""When each slot worked on a sweep's jobs, and on what else: attempts as spans of time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Attempt, Event, Job, SweepJob

MOST_SPANS = 5000
"""Attempts of one sweep that are read, the newest ones; and as many of others on the same slots."""


@dataclass(frozen=True)
class Span:
    """One attempt."""

    slot: str
    node: str
    job_id: str
    cell: int | None
    """None for a job of another sweep, which kept the slot from this one's."""
    seed: int
    flops: float
    """Of the whole job."""
    start_step: int | None
    started: datetime
    ended: datetime | None
    """None while it runs."""
    cause: str | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs."""
        return None if self.ended is None else (self.ended - self.started).total_seconds()


@dataclass(frozen=True)
class Timeline:
    """The attempts of a sweep, and those of others on its slots meanwhile, by their start."""

    spans: tuple[Span, ...]
    heard: datetime | None
    """When something was last heard of the sweep: until then its open attempts are known to run."""

    @property
    def own(self) -> tuple[Span, ...]:
        """The sweep's own."""
        return tuple(span for span in self.spans if span.cell is not None)


def timeline(session: Session, name: str) -> Timeline:
    """The timeline of a sweep. Raises `NotFoundError`."""
    sweep = find_sweep(session, name)
    own = _spans(
        session.execute(
            select(*_COLUMNS, SweepJob.cell_id)
            .join(Job, Job.id == Attempt.job_id)
            .join(SweepJob, SweepJob.job_id == Job.id)
            .where(SweepJob.sweep_id == sweep.id)
            .order_by(Attempt.id.desc())
            .limit(MOST_SPANS)
        ).all()
    )
    if not own:
        return Timeline((), None)
    heard = session.scalar(select(func.max(Event.created)).where(Event.sweep_id == sweep.id))
    ends = [moment for span in own for moment in (span.started, span.ended) if moment]
    until = max([*ends, *([heard] if heard else [])])
    known = {(span.job_id, span.started) for span in own}
    others = _spans(
        (*row, None)
        for row in session.execute(
            select(*_COLUMNS)
            .join(Job, Job.id == Attempt.job_id)
            .where(
                Attempt.slot.in_({span.slot for span in own}),
                Attempt.started <= until,
                func.coalesce(Attempt.ended, until) >= min(span.started for span in own),
            )
            .order_by(Attempt.id.desc())
            .limit(MOST_SPANS)
        )
    )
    found = [*own, *(span for span in others if (span.job_id, span.started) not in known)]
    return Timeline(tuple(sorted(found, key=lambda span: (span.started, span.job_id))), until)


_COLUMNS = (
    Attempt.slot,
    Attempt.node,
    Attempt.job_id,
    Job.seed,
    Job.flops,
    Attempt.start_step,
    Attempt.started,
    Attempt.ended,
    Attempt.cause,
)


def _spans(rows: Iterable[Sequence[Any]]) -> list[Span]:
    return [
        Span(slot, node, job, cell, seed, flops, step, started, ended, cause)
        for slot, node, job, seed, flops, step, started, ended, cause, cell in rows
    ]

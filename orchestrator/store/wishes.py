"""What sweeps want of jobs: withdrawn, dropped, or wished for again."""

from collections.abc import Collection, Iterator
from typing import TypeVar

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.growth import change_growth
from headcount.orchestrator.store.journal import announce_sweep, now, touch_sweeps_of
from headcount.orchestrator.store.models import Attempt, Job, SweepJob

T = TypeVar("T")

_CHUNK = 500
"""Ids in one statement; SQLite takes 32,766 at most, and statements of one length are parsed once."""


def withdraw(
    session: Session, sweep_id: int, job_ids: Collection[str] | None = None, *, by: str | None = None
) -> int:
    """Withdraw a sweep's wish for its unsettled jobs, or for some of them; how many it wished for.

    A sweep that withdraws all of them adds none to itself any more.

    A job that no other sweep wants is decided at once: queued becomes cancelled, running cancelling.
    `by` is who asked for it, for the audit.
    """
    unsettled = (
        select(SweepJob.job_id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep_id, SweepJob.wanted)
        .where(Job.state.in_(("queued", "running")))
    )
    withdrawn = [j for j in session.scalars(unsettled) if job_ids is None or j in job_ids]
    for chunk in chunks(withdrawn):
        session.execute(
            update(SweepJob)
            .where(SweepJob.sweep_id == sweep_id, SweepJob.job_id.in_(chunk))
            .values(wanted=False)
        )
    _cancel_unwanted(session, withdrawn)
    ended = job_ids is None and change_growth(session, sweep_id, ("growing", "held"), "cancelled")
    if withdrawn or ended:
        announce_sweep(session, sweep_id, "cancelled", jobs=len(withdrawn), **({"by": by} if by else {}))
    return len(withdrawn)


def requeue(session: Session, job_ids: list[str]) -> int:
    """Queue jobs that failed or were cancelled again; what they did before does not count against them."""
    attempts = select(func.coalesce(func.max(Attempt.number), 0)).where(Attempt.job_id == Job.id)
    for chunk in chunks(job_ids):
        session.execute(
            update(Job)
            .where(Job.id.in_(chunk), Job.kind != "external")  # nothing here can train those
            .values(
                state="queued",
                ended=None,
                micro_batch=None,
                forgiven_attempts=attempts.scalar_subquery(),
            ),
            execution_options={"synchronize_session": False},
        )
        touch_sweeps_of(session, chunk)
    return len(job_ids)


def drop_wishes(session: Session, sweep_id: int, job_ids: Collection[str]) -> None:
    """Remove the rows of jobs that a sweep no longer plans."""
    for chunk in chunks(job_ids):
        session.execute(
            delete(SweepJob).where(SweepJob.sweep_id == sweep_id, SweepJob.job_id.in_(chunk)),
            execution_options={"synchronize_session": False},
        )
    _cancel_unwanted(session, job_ids)


def _cancel_unwanted(session: Session, job_ids: Collection[str]) -> None:
    """Of these jobs, cancel those that no sweep wants any more."""
    wanted = select(SweepJob.job_id).where(SweepJob.job_id == Job.id, SweepJob.wanted).exists()
    for chunk in chunks(job_ids):
        unwanted = update(Job).where(Job.id.in_(chunk), ~wanted)
        for state, values in (
            ("queued", {"state": "cancelled", "ended": now()}),
            ("running", {"state": "cancelling"}),
        ):
            session.execute(
                unwanted.where(Job.state == state).values(**values),
                execution_options={"synchronize_session": False},
            )
        touch_sweeps_of(session, chunk)


def chunks(items: Collection[T]) -> Iterator[list[T]]:
    """The items in lists short enough for one statement."""
    listed = list(items)
    for start in range(0, len(listed), _CHUNK):
        yield listed[start : start + _CHUNK]

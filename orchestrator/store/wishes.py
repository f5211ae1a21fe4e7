"""What sweeps want of jobs: withdrawn, dropped, or wished for again; instruments go with their parents."""

from collections.abc import Collection, Iterator
from typing import TypeVar

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.growth import change_growth
from headcount.orchestrator.store.instrument_models import SweepInstrument
from headcount.orchestrator.store.journal import announce_sweep, now, touch_sweeps_of
from headcount.orchestrator.store.models import SETTLED_STATES, Attempt, Job, SweepJob

T = TypeVar("T")

_CHUNK = 500
"""Ids in one statement; SQLite takes 32,766 at most, and statements of one length are parsed once."""


def withdraw(
    session: Session, sweep_id: int, job_ids: Collection[str] | None = None, *, by: str | None = None
) -> int:
    """Withdraw a sweep's wish for its unsettled jobs, or for some of them; how many it wished for.

    A sweep that withdraws all of them adds none to itself any more, and wants nothing measured that is not.

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
    set_wanted(session, SweepJob, sweep_id, withdrawn, False)
    cancel_unwanted(session, withdrawn)
    ended = job_ids is None and change_growth(session, sweep_id, ("growing", "held"), "cancelled")
    instruments = _withdraw_instruments(session, sweep_id) if job_ids is None else 0
    if withdrawn or ended or instruments:
        announce_sweep(session, sweep_id, "cancelled", jobs=len(withdrawn), **({"by": by} if by else {}))
    return len(withdrawn)


def set_wanted(
    session: Session,
    wish: type[SweepJob] | type[SweepInstrument],
    sweep_id: int,
    job_ids: Collection[str],
    wanted: bool,
) -> None:
    """Let a sweep want these of its jobs or instruments, or want them no more."""
    for chunk in chunks(job_ids):
        session.execute(
            update(wish).where(wish.sweep_id == sweep_id, wish.job_id.in_(chunk)).values(wanted=wanted),
            execution_options={"synchronize_session": False},
        )


def requeue(session: Session, job_ids: list[str]) -> int:
    """Queue jobs that failed or were cancelled again; what they did before does not count against them."""
    attempts = select(func.coalesce(func.max(Attempt.number), 0)).where(Attempt.job_id == Job.id)
    waits_for_one = _is_wanted_instrument() & (Job.state == "cancelled")
    for chunk in chunks(job_ids):
        session.execute(
            update(Job)
            .where(Job.id.in_(chunk) | (Job.parent_id.in_(chunk) & waits_for_one))
            .where(Job.kind != "external")  # nothing here can train those
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
    cancel_unwanted(session, job_ids)


def is_wanted() -> ColumnElement[bool]:
    """Whether any sweep wants the job of an enclosing query, an instrument or not."""
    trained = select(SweepJob.job_id).where(SweepJob.job_id == Job.id, SweepJob.wanted).exists()
    return or_(trained, _is_wanted_instrument())


def _is_wanted_instrument() -> ColumnElement[bool]:
    wish = select(SweepInstrument.job_id).where(SweepInstrument.job_id == Job.id, SweepInstrument.wanted)
    return wish.exists()


def _withdraw_instruments(session: Session, sweep_id: int) -> int:
    """Want nothing measured for a sweep that is not measured yet; how many instruments that were."""
    unsettled = (
        select(SweepInstrument.job_id)
        .join(Job, Job.id == SweepInstrument.job_id)
        .where(SweepInstrument.sweep_id == sweep_id, Job.state.not_in(SETTLED_STATES))
    )
    withdrawn = list(session.scalars(unsettled))
    set_wanted(session, SweepInstrument, sweep_id, withdrawn, False)
    cancel_unwanted(session, withdrawn)
    return len(withdrawn)


def cancel_children(session: Session, job_ids: Collection[str]) -> None:
    """Cancel the instruments that wait for the model of one of these jobs, which leave none."""
    for chunk in chunks(job_ids):
        session.execute(
            update(Job)
            .where(Job.parent_id.in_(chunk), Job.state == "queued")
            .values(state="cancelled", ended=now()),
            execution_options={"synchronize_session": False},
        )


def cancel_unwanted(session: Session, job_ids: Collection[str]) -> None:
    """Of these jobs, cancel those that no sweep wants any more."""
    for chunk in chunks(job_ids):
        unwanted = update(Job).where(Job.id.in_(chunk), ~is_wanted())
        for state, values in (
            ("queued", {"state": "cancelled", "ended": now()}),
            ("running", {"state": "cancelling"}),
        ):
            session.execute(
                unwanted.where(Job.state == state).values(**values),
                execution_options={"synchronize_session": False},
            )
        ended = select(Job.id).where(Job.id.in_(chunk), Job.state == "cancelled")
        cancel_children(session, session.scalars(ended).all())
        touch_sweeps_of(session, chunk)


def chunks(items: Collection[T]) -> Iterator[list[T]]:
    """The items in lists short enough for one statement."""
    listed = list(items)
    for start in range(0, len(listed), _CHUNK):
        yield listed[start : start + _CHUNK]

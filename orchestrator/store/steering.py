"""What is changed about a sweep on its way: paused, resumed, put before others, tried again, deleted.

A job that several sweeps want runs as the most willing of them wishes.
"""

from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.growth import change_growth
from headcount.orchestrator.store.instrument_models import SweepInstrument
from headcount.orchestrator.store.instruments import want_instruments
from headcount.orchestrator.store.journal import announce_sweep, record
from headcount.orchestrator.store.models import Job, Sweep, SweepJob, Trial
from headcount.orchestrator.store.wishes import drop_wishes, requeue, set_wanted


def pause(session: Session, sweep_id: int, *, by: str) -> int:
    """Start no more jobs for a sweep; those that run go on. Returns how many wishes that changed."""
    held = change_growth(session, sweep_id, ("growing",), "held")
    return _change(session, sweep_id, "paused", by, SweepJob.paused, True, also=held)


def resume(session: Session, sweep_id: int, *, by: str) -> int:
    """Start a paused sweep's jobs again. Returns how many wishes that changed."""
    held = change_growth(session, sweep_id, ("held",), "growing")
    return _change(session, sweep_id, "resumed", by, SweepJob.paused, False, also=held)


def set_priority(session: Session, sweep_id: int, priority: int, *, by: str) -> int:
    """Put a sweep's jobs before those of lower priority. Returns how many wishes that changed."""
    return _change(session, sweep_id, "prioritised", by, SweepJob.priority, priority)


def retry(session: Session, sweep_id: int, *, by: str) -> int:
    """Queue a sweep's failed jobs again, as if they had not failed before. Returns how many."""
    failed = (
        select(SweepJob.job_id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep_id, Job.state == "failed", Job.kind != "external")
    )
    job_ids = list(session.scalars(failed))
    set_wanted(session, SweepJob, sweep_id, job_ids, True)
    instruments = select(SweepInstrument.job_id).join(Job, Job.id == SweepInstrument.job_id)
    instruments = instruments.where(SweepInstrument.sweep_id == sweep_id, Job.state == "failed")
    job_ids += session.scalars(instruments)
    requeue(session, job_ids)
    if job_ids:
        change_growth(session, sweep_id, ("over", "stopped", "cancelled"), "growing")
        failed_trials = update(Trial).where(Trial.sweep_id == sweep_id, Trial.state == "failed")
        session.execute(failed_trials.values(state="open"))
        announce_sweep(session, sweep_id, "requeued", by=by, jobs=len(job_ids))
    return len(job_ids)


def delete_sweep(session: Session, sweep_id: int, *, by: str) -> int:
    """Remove a sweep with its cells, wishes and events; how many jobs it wished for.

    Its jobs stay with their results, for whoever wishes for them again: what no other sweep wants is only
    cancelled where it has not ended. The audit keeps that it was there.
    """
    sweep = session.get_one(Sweep, sweep_id)
    job_ids = list(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id == sweep_id)))
    drop_wishes(session, sweep_id, job_ids)
    want_instruments(session, sweep_id, ())
    # before the sweep's own events go: SQLite gives the id of a deleted last row again
    record(session, "deleted", by=by, sweep=sweep.name, owner=sweep.owner, jobs=len(job_ids))
    session.execute(
        delete(Sweep).where(Sweep.id == sweep_id), execution_options={"synchronize_session": False}
    )
    session.expunge(sweep)
    return len(job_ids)


def _change(
    session: Session, sweep_id: int, kind: str, by: str, column: Any, value: Any, also: bool = False
) -> int:
    """Set a column of a sweep's wishes; it is announced where that changed any, or something else changed."""
    changed = session.execute(
        update(SweepJob)
        .where(SweepJob.sweep_id == sweep_id, column != value)
        .values({column: value})
        .execution_options(synchronize_session=False)
    )
    count: int = changed.rowcount  # type: ignore[attr-defined]
    if count or also:
        announce_sweep(session, sweep_id, kind, by=by, jobs=count, **{column.key: value})
    return count

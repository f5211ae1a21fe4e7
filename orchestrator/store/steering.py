"""What is changed about a sweep on its way: paused, resumed, put before others, tried again, deleted.

A job that several sweeps want runs as the most willing of them wishes.
"""

from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import announce_sweep, record
from headcount.orchestrator.store.models import Job, Sweep, SweepJob
from headcount.orchestrator.store.wishes import chunks, drop_wishes, requeue


def pause(session: Session, sweep_id: int, *, by: str) -> int:
    """Start no more jobs for a sweep; those that run go on. Returns how many wishes that changed."""
    return _change(session, sweep_id, "paused", by, SweepJob.paused, True)


def resume(session: Session, sweep_id: int, *, by: str) -> int:
    """Start a paused sweep's jobs again. Returns how many wishes that changed."""
    return _change(session, sweep_id, "resumed", by, SweepJob.paused, False)


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
    for chunk in chunks(job_ids):
        session.execute(
            update(SweepJob)
            .where(SweepJob.sweep_id == sweep_id, SweepJob.job_id.in_(chunk))
            .values(wanted=True),
            execution_options={"synchronize_session": False},
        )
    requeue(session, job_ids)
    if job_ids:
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
    # before the sweep's own events go: SQLite gives the id of a deleted last row again
    record(session, "deleted", by=by, sweep=sweep.name, owner=sweep.owner, jobs=len(job_ids))
    session.execute(
        delete(Sweep).where(Sweep.id == sweep_id), execution_options={"synchronize_session": False}
    )
    session.expunge(sweep)
    return len(job_ids)


def _change(session: Session, sweep_id: int, kind: str, by: str, column: Any, value: Any) -> int:
    changed = session.execute(
        update(SweepJob)
        .where(SweepJob.sweep_id == sweep_id, column != value)
        .values({column: value})
        .execution_options(synchronize_session=False)
    )
    count: int = changed.rowcount  # type: ignore[attr-defined]
    if count:
        announce_sweep(session, sweep_id, kind, by=by, jobs=count, **{column.key: value})
    return count

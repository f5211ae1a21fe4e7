"""Events and sweep versions: what readers follow. Both belong in the transaction of the change itself."""

import getpass
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Event, Sweep, SweepJob


def now() -> datetime:
    """This moment in UTC, by this machine's clock: told to people, and what budgets are counted by."""
    return datetime.now(UTC)


def user_name() -> str:
    """Who does what this process does: its user's name, or number where it has none, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def announce_job(session: Session, job_id: str, kind: str, **detail: Any) -> None:
    """Tell every sweep of a job what happened to it."""
    tell_sweeps_of(session, job_id, kind, [detail])
    touch_sweeps_of(session, [job_id])


def tell_sweeps_of(session: Session, job_id: str, kind: str, details: Sequence[dict[str, Any]]) -> None:
    """Events of one kind for every sweep of a job, in this order; the sweeps' versions are not raised yet."""
    if not details:
        return
    sweeps = session.scalars(select(SweepJob.sweep_id).where(SweepJob.job_id == job_id)).all()
    shared = {"job_id": job_id, "kind": kind, "created": now()}
    rows = [{**shared, "sweep_id": sweep, "detail": detail} for detail in details for sweep in sweeps]
    if rows:
        session.execute(insert(Event), rows)


def announce_sweep(session: Session, sweep_id: int, kind: str, **detail: Any) -> None:
    """Tell what happened to a sweep as a whole."""
    session.execute(
        insert(Event).values(sweep_id=sweep_id, job_id=None, kind=kind, detail=detail, created=now())
    )
    session.execute(update(Sweep).where(Sweep.id == sweep_id).values(version=Sweep.version + 1))


def touch_sweeps_of(session: Session, job_ids: Collection[str]) -> None:
    """Raise the version of every sweep that holds one of the jobs."""
    sweeps = select(SweepJob.sweep_id).where(SweepJob.job_id.in_(job_ids))
    session.execute(
        update(Sweep).where(Sweep.id.in_(sweeps)).values(version=Sweep.version + 1),
        execution_options={"synchronize_session": False},
    )


def record(session: Session, kind: str, **detail: Any) -> None:
    """Tell what happened to no sweep or job, such as a change of tokens: for the audit alone."""
    session.execute(insert(Event).values(sweep_id=None, job_id=None, kind=kind, detail=detail, created=now()))

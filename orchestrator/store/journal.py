"""Events and sweep versions: what readers follow. Both belong in the transaction of the change itself."""

import getpass
import os
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import Table, bindparam, insert, or_, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Event, Job, Sweep, SweepJob


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
    session.connection().execute(_TOUCH_TABLES, {"of_job": job_id})


def tell_sweeps_of(session: Session, job_id: str, kind: str, details: Sequence[dict[str, Any]]) -> None:
    """Events of one kind for every sweep of a job, in this order; the sweeps' versions are not raised yet."""
    if not details:
        return
    connection = session.connection()
    sweeps = connection.execute(_SWEEPS_OF, {"of_job": job_id}).scalars().all()
    shared = {"job_id": job_id, "kind": kind, "created": now()}
    rows = [{**shared, "sweep_id": sweep, "detail": detail} for detail in details for sweep in sweeps]
    if rows:
        connection.execute(_TELL, rows)


_SWEEP_JOB: Any = SweepJob.__table__
_PARENT_OF = select(Job.parent_id).where(Job.id == bindparam("of_job")).scalar_subquery()
_SWEEPS_OF = select(_SWEEP_JOB.c.sweep_id).where(_SWEEP_JOB.c.job_id.in_([bindparam("of_job"), _PARENT_OF]))
"""An instrument shows in every sweep that has its parent."""
_TELL = insert(cast(Table, Event.__table__))


def announce_sweep(session: Session, sweep_id: int, kind: str, **detail: Any) -> None:
    """Tell what happened to a sweep as a whole."""
    session.execute(
        insert(Event).values(sweep_id=sweep_id, job_id=None, kind=kind, detail=detail, created=now())
    )
    session.execute(update(Sweep).where(Sweep.id == sweep_id).values(**_RAISED))


def touch_sweeps_of(session: Session, job_ids: Collection[str]) -> None:
    """Raise the version of every sweep that holds one of the jobs, or the job that one of them looks at."""
    parents = select(Job.parent_id).where(Job.id.in_(job_ids), Job.parent_id.is_not(None))
    holds = or_(SweepJob.job_id.in_(job_ids), SweepJob.job_id.in_(parents))
    sweeps = select(SweepJob.sweep_id).where(holds)
    session.execute(
        update(Sweep).where(Sweep.id.in_(sweeps)).values(**_RAISED),
        execution_options={"synchronize_session": False},
    )


_RAISED: Any = {"version": Sweep.version + 1, "results_version": Sweep.results_version + 1}
_SWEEP: Any = Sweep.__table__
_TOUCH = (
    update(_SWEEP).where(_SWEEP.c.id.in_(_SWEEPS_OF.scalar_subquery())).values(version=_SWEEP.c.version + 1)
)
_TOUCH_TABLES = _TOUCH.values(results_version=_SWEEP.c.results_version + 1)


def touch_sweeps_of_running(session: Session, job_id: str) -> None:
    """As `touch_sweeps_of`, for what a running job tells again and again: the tables stay as they are."""
    session.connection().execute(_TOUCH, {"of_job": job_id})


def record(session: Session, kind: str, **detail: Any) -> None:
    """Tell what happened to no sweep or job, such as a change of tokens: for the audit alone."""
    session.execute(insert(Event).values(sweep_id=None, job_id=None, kind=kind, detail=detail, created=now()))

"""Events and sweep versions: what readers follow. Both belong in the transaction of the change itself."""

import getpass
import os
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, bindparam, insert, or_, select, update
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


def event_row(sweep_id: int, job_id: str, kind: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    """What a sweep is told of one of its jobs, as the table has it."""
    return {"sweep_id": sweep_id, "job_id": job_id, "kind": kind, "detail": detail, "created": now()}


def announce_job(session: Session, job_id: str, kind: str, **detail: Any) -> None:
    """Tell every sweep of a job what happened to it."""
    connection = session.connection()
    sweeps = connection.execute(_SWEEPS_OF, {"of_job": job_id}).scalars().all()
    if sweeps:
        connection.execute(_TELL, [event_row(sweep, job_id, kind, detail) for sweep in sweeps])
        raise_versions(session, sweeps, of_tables=True)


def shown_in(job: Any) -> ColumnElement[bool]:
    """Joins `sweep_job` to a table of jobs: an instrument shows in every sweep that has its parent."""
    return or_(_SWEEP_JOB.c.job_id == job.c.id, _SWEEP_JOB.c.job_id == job.c.parent_id)


_EVENT: Any = Event.__table__
_SWEEP: Any = Sweep.__table__
_SWEEP_JOB: Any = SweepJob.__table__
_JOB: Any = Job.__table__
_SWEEPS_OF = select(_SWEEP_JOB.c.sweep_id).join(_JOB, shown_in(_JOB)).where(_JOB.c.id == bindparam("of_job"))
_TELL = insert(_EVENT)


def raise_versions(session: Session, sweep_ids: Collection[int], of_tables: bool) -> None:
    """Raise the versions of sweeps, and those of their tables where these change too."""
    if sweep_ids:
        raised = _RAISE_TABLES if of_tables else _RAISE
        session.connection().execute(raised, {"of_sweeps": list(sweep_ids)})


_RAISE = (
    update(_SWEEP)
    .where(_SWEEP.c.id.in_(bindparam("of_sweeps", expanding=True)))
    .values(version=_SWEEP.c.version + 1)
)
_RAISE_TABLES = _RAISE.values(results_version=_SWEEP.c.results_version + 1)


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


def record(session: Session, kind: str, **detail: Any) -> None:
    """Tell what happened to no sweep or job, such as a change of tokens: for the audit alone."""
    session.execute(insert(Event).values(sweep_id=None, job_id=None, kind=kind, detail=detail, created=now()))

"""The newest attempt at each job of a sweep: what its list of jobs says of causes and logs."""

from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Attempt, SweepJob


@dataclass(frozen=True)
class LastAttempt:
    """The newest of a job's attempts."""

    number: int
    """From 1: how many there were."""
    cause: str | None
    """Of its end; None while it runs."""
    message: str | None
    logged: bool
    """Whether what it printed is kept."""


def last_attempts(session: Session, sweep: str) -> dict[str, LastAttempt]:
    """Job to its newest attempt, of those that have begun. Raises `NotFoundError`."""
    of_sweep = SweepJob.sweep_id == find_sweep(session, sweep).id
    newest = (
        select(Attempt.job_id, func.max(Attempt.number).label("number"))
        .join(SweepJob, SweepJob.job_id == Attempt.job_id)
        .where(of_sweep)
        .group_by(Attempt.job_id)
        .subquery()
    )
    query = select(
        Attempt.job_id, Attempt.number, Attempt.cause, Attempt.message, Attempt.log.is_not(None)
    ).join(newest, (newest.c.job_id == Attempt.job_id) & (newest.c.number == Attempt.number))
    rows = session.execute(query)
    return {job: LastAttempt(number, cause, message, logged) for job, number, cause, message, logged in rows}

"""What the store holds and nothing needs any more: files of ended jobs, and jobs that no sweep has."""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import Select, Table, delete, exists, or_, select, update
from sqlalchemy.orm import Session, aliased

from headcount.orchestrator.store.columns import Base
from headcount.orchestrator.store.journal import record
from headcount.orchestrator.store.models import (
    RESULT_STATES,
    SETTLED_STATES,
    Artifact,
    Attempt,
    Event,
    Job,
    Sweep,
    SweepJob,
)
from headcount.orchestrator.store.wishes import chunks


def ended_files(session: Session, kind: str, before: datetime) -> list[str]:
    """Keys of the artifacts of that kind of jobs that ended `before`.

    A checkpoint goes with any settled job, a model only with one that has a result. A job that others wait
    for keeps its files.
    """
    states = SETTLED_STATES if kind == "checkpoint" else RESULT_STATES
    child = aliased(Job)
    awaited = exists().where(child.parent_id == Job.id, child.state.not_in(SETTLED_STATES))
    return list(
        session.scalars(
            select(Artifact.key)
            .join(Job, Job.id == Artifact.job_id)
            .where(Artifact.kind == kind, Job.state.in_(states), Job.ended < before, ~awaited)
            .order_by(Artifact.key)
        )
    )


def forget_files(session: Session, keys: Collection[str]) -> None:
    """Drop the artifacts whose files are gone."""
    for chunk in chunks(keys):
        session.execute(delete(Artifact).where(Artifact.key.in_(chunk)))


def ended_logs(session: Session, before: datetime) -> list[str]:
    """Keys of the outputs of attempts that ended `before`."""
    query = select(Attempt.log).where(Attempt.log.is_not(None), Attempt.ended < before)
    return [key for key in session.scalars(query.order_by(Attempt.id)) if key is not None]


def forget_logs(session: Session, keys: Collection[str]) -> None:
    """Let the attempts name no output any more."""
    for chunk in chunks(keys):
        session.execute(
            update(Attempt).where(Attempt.log.in_(chunk)).values(log=None),
            execution_options={"synchronize_session": False},
        )


def initial_weights(session: Session) -> set[str]:
    """SHA-256 of all weights that some job starts from, whether it has begun or not."""
    weights = Job.config["init.weights"].as_string()
    found = set(session.scalars(select(weights).distinct()))
    for adaptive in session.scalars(select(Sweep.adaptive)):
        found.add((adaptive or {}).get("initial", {}).get("init.weights"))
    return {sha256 for sha256 in found if sha256}


def unclaimed_jobs(session: Session, before: datetime) -> list[str]:
    """Settled jobs that ended `before`, and that no sweep has and no other job needs."""
    return list(session.scalars(_unclaimed(before).order_by(Job.id)))


def forget_jobs(session: Session, job_ids: Collection[str], before: datetime, *, by: str) -> list[str]:
    """Delete those of the jobs that are still unclaimed, with their results; which ones."""
    gone: list[str] = []
    for chunk in chunks(job_ids):
        gone += session.scalars(_unclaimed(before).where(Job.id.in_(chunk)))
    for chunk in chunks(gone):
        session.execute(
            update(Event).where(Event.job_id.in_(chunk)).values(job_id=None),
            execution_options={"synchronize_session": False},
        )
        for table in reversed(Base.metadata.sorted_tables):
            if "job_id" in table.c and table.name not in (Event.__tablename__, SweepJob.__tablename__):
                session.execute(delete(table).where(table.c.job_id.in_(chunk)))
        jobs: Table = Base.metadata.tables[Job.__tablename__]
        session.execute(delete(jobs).where(jobs.c.id.in_(chunk)))
    if gone:
        record(session, "collected", by=by, jobs=len(gone))
    return gone


def _unclaimed(before: datetime) -> Select[Any]:
    claims = (SweepJob.job_id == Job.id, SweepJob.control_job_id == Job.id, SweepJob.job_id == Job.parent_id)
    claimed = exists().where(or_(*claims))
    child = aliased(Job)
    return (
        select(Job.id)
        .where(Job.state.in_(SETTLED_STATES), or_(Job.ended.is_(None), Job.ended < before))
        .where(~claimed, ~exists().where(child.parent_id == Job.id))
    )

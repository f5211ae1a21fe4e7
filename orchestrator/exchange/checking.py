"""Is a store whole? Its schema, its references, and results that follow from what is stored."""

from sqlalchemy import func, inspect, select, text
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import SETTLED_STATES, Attempt, Base, Evaluation, Job

_TOLERANCE = 1e-9
"""Relative; databases add in an order of their own."""


def check_store(store: Store) -> list[str]:
    """What is wrong with a store, one sentence each; none where it is whole. Changes nothing."""
    problems = _schema(store)
    if problems:
        return problems
    with store.read() as session:
        return [*_engine(session), *_states(session), *_tail_means(session)]


def _schema(store: Store) -> list[str]:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        differences = [
            f"the schema differs from the models: {d}" for d in compare_metadata(context, Base.metadata)
        ]
    found = inspect(store.engine)
    missing = [
        f"the index {index.name} of {table.name} is missing"
        for table in Base.metadata.sorted_tables
        for index in table.indexes
        if found.has_table(table.name)
        and index.name not in {i["name"] for i in found.get_indexes(table.name)}
    ]
    return differences or missing


def _engine(session: Session) -> list[str]:
    """SQLite's own checks; PostgreSQL holds its references by itself."""
    if session.get_bind().dialect.name != "sqlite":
        return []
    found = [row[0] for row in session.execute(text("PRAGMA integrity_check"))]
    problems = [f"the file is damaged: {words}" for words in found if words != "ok"]
    for table, row, other, _ in session.execute(text("PRAGMA foreign_key_check")):
        problems.append(f"row {row} of {table} refers to a row of {other} that is not there")
    return problems


def _states(session: Session) -> list[str]:
    open_attempts = (
        select(Job.id, Job.state)
        .join(Attempt, Attempt.job_id == Job.id)
        .where(Attempt.ended.is_(None), Job.state.in_(SETTLED_STATES))
    )
    problems = [
        f"job {job_id[:12]} is {state}, but has an attempt without an end"
        for job_id, state in session.execute(open_attempts)
    ]
    unreported = select(Job.id).where(
        Job.kind.in_(("train", "external")), Job.state == "finished", Job.tail_mean.is_(None)
    )
    problems += [
        f"job {job_id[:12]} is finished, but has no tail mean" for job_id in session.scalars(unreported)
    ]
    return problems


def _tail_means(session: Session) -> list[str]:
    """Every tail mean is the mean of the evaluations that it is said to be of."""
    steps = Job.config["train.steps"].as_integer()
    query = (
        select(Job.id, Job.tail_mean, func.avg(Evaluation.loss))
        .join(Evaluation, Evaluation.job_id == Job.id)
        .where(Job.state == "finished", Job.tail_mean.is_not(None), Job.tail.is_(None))
        .where(4 * Evaluation.step >= 3 * steps)
        .group_by(Job.id, Job.tail_mean)
    )
    return [
        f"job {job_id[:12]} reports {stored:.6f}, but its evaluations have the tail mean {mean:.6f}"
        for job_id, stored, mean in session.execute(query)
        if mean is not None and abs(stored - mean) > _TOLERANCE * abs(mean)
    ]

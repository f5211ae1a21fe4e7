"""Stores of earlier schemas, with data in them, come to the newest one whole."""

from typing import Any

import pytest
from alembic import command
from builders import build_sweep
from sqlalchemy import MetaData, create_engine, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

from headcount.orchestrator.exchange.checking import check_store
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.engine import new_engine
from headcount.orchestrator.store.migrations.upgrade import HEAD, alembic_config
from headcount.orchestrator.store.models import Base, Job
from headcount.orchestrator.store.tokens import create_token

INDEXES = {
    "artifact": {("job_id",)},
    "attempt": {("job_id", "number")},
    "cell": {("sweep_id",)},
    "event": {("sweep_id",)},
    "job": {
        ("state",),
        ("parent_id", "ended", "id", "seed", "state"),
        ("id", "kind", "state", "seed", "tail_mean", "diverged_step", "parameters", "flops"),
    },
    "measurement": {("job_id", "name", "value")},
    "sweep_instrument": {("job_id",)},
    "sweep_job": {("cell_id",), ("job_id",), ("sweep_id", "position", "job_id")},
}
"""Table to the columns of its indexes, beside keys."""

EARLIER = [f"{number:04}" for number in range(1, int(HEAD))]


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, store_url: str) -> str:
    """A database without a table, on each engine in turn."""
    if store_url.startswith("postgresql"):
        engine = create_engine(store_url)
        with engine.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        engine.dispose()
    return store_url


@pytest.mark.parametrize("revision", EARLIER)
def test_a_store_of_an_earlier_schema_keeps_every_row(empty_url: str, revision: str) -> None:
    old = Store(new_engine(empty_url))
    config = alembic_config()
    with old.write() as session:
        config.attributes["connection"] = session.connection()
        command.upgrade(config, revision)
    _fill(old)
    had = inspect(old.engine)
    columns = {t: [c["name"] for c in had.get_columns(t)] for t in had.get_table_names()}
    before = _rows(old, columns)
    old.close()

    new = open_store(empty_url)
    assert _rows(new, columns) == before
    with new.write() as session:
        assert session.execute(text("SELECT version_num FROM alembic_version")).scalar() == HEAD
        session.execute(text("UPDATE job SET kind = 'external' WHERE state = 'failed'"))
    with new.read() as session:
        assert session.scalars(select(Job.kind).where(Job.state == "failed")).all() == ["external"]
    with pytest.raises(IntegrityError), new.write() as session:
        session.execute(text("UPDATE job SET kind = 'other'"))
    if empty_url.startswith("sqlite"):
        with new.read() as session:
            assert session.execute(text("PRAGMA integrity_check")).scalar() == "ok"
            assert session.execute(text("PRAGMA foreign_key_check")).all() == []
    new.close()


def test_processes_of_the_schema_before_go_on_while_it_is_upgraded(empty_url: str) -> None:
    """Their statements name the columns that they know: none is gone, and every new one has a default."""
    old = Store(new_engine(empty_url))
    config = alembic_config()
    with old.write() as session:
        config.attributes["connection"] = session.connection()
        command.upgrade(config, EARLIER[-1])
    _fill(old)
    known = MetaData()
    known.reflect(old.engine)
    tables = [table for table in known.sorted_tables if table.name != "alembic_version"]
    open_store(empty_url).close()

    with old.read() as session:
        rows = {table.name: [row._asdict() for row in session.execute(select(table))] for table in tables}
    assert {name for name, found in rows.items() if found} >= {"sweep", "job", "attempt", "token"}
    with old.write() as session:
        for table in reversed(tables):
            session.execute(table.update().values({c: c for c in table.c if not c.primary_key}))
            session.execute(table.delete())
        for table in tables:
            for row in sorted(rows[table.name], key=lambda row: row.get("control_id") or 0):
                session.execute(insert(table).values(row))
    with old.read() as session:
        assert {t.name: [row._asdict() for row in session.execute(select(t))] for t in tables} == rows
    old.close()
    new = open_store(empty_url)
    with new.read() as session:
        for model in Base.__subclasses__():
            session.scalars(select(model)).all()
    assert check_store(new) == []
    new.close()


def test_reads_have_their_indexes(store: Store) -> None:
    had = inspect(store.engine)
    found = {
        table: {tuple(index["column_names"]) for index in had.get_indexes(table)}
        for table in had.get_table_names()
    }
    unique = {("name",), ("sha256",)}
    assert {t: i - unique for t, i in found.items() if i - unique} == INDEXES


def test_what_jobs_tell_refers_to_its_attempt_or_sweep_alone(store: Store) -> None:
    """PostgreSQL looks up each reference of each row, which is half of the work of storing it."""
    had = inspect(store.engine)
    found = {
        table: [key["referred_table"] for key in had.get_foreign_keys(table)]
        for table in ("evaluation", "progress", "event")
    }
    assert found == {"evaluation": ["attempt"], "progress": ["attempt"], "event": ["sweep"]}


def _fill(old: Store) -> None:
    """Rows of today's models, as far as the earlier schema has their columns."""
    newest = open_store("sqlite://")
    with newest.write() as session:
        build_sweep(session, kv_heads=(1,), states={(2, 1, 1e-3, 0): "failed"})
        create_token(session, "ada", "submit", expires=None, by="root")
    earlier = MetaData()
    earlier.reflect(old.engine)
    with newest.read() as reading, old.write() as writing:
        for name in (table.name for table in earlier.sorted_tables):
            if (table := Base.metadata.tables.get(name)) is not None:
                columns = [c for c in table.c if c.name in earlier.tables[name].c]
                rows = [dict(row._mapping) for row in reading.execute(select(*columns))]
                if rows:
                    writing.execute(insert(table), rows)
    newest.close()


def _rows(store: Store, columns: dict[str, list[str]]) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, of these columns of each."""
    with store.read() as session:
        return {
            table.name: [
                tuple(row)
                for row in session.execute(
                    select(*(c for c in table.c if c.name in columns[table.name])).order_by(
                        *table.primary_key.columns
                    )
                )
            ]
            for table in Base.metadata.sorted_tables
            if table.name in columns
        }

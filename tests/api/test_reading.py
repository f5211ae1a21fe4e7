"""How much an answer reads of PostgreSQL by its plan for any sweep, which a server comes to keep to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import Connection, event, select, text

from headcount.api.bench import filling, instruments
from headcount.api.bench.tables import OF_INSTRUMENTS, OF_LOSSES
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Cell, Sweep

pytestmark = pytest.mark.parametrize("database", ["postgresql"], indirect=True)

SWEEPS, JOBS = 20, 200
"""Of the store, and of each of its sweeps."""

_READ = text("""
    SELECT sum(pg_stat_get_xact_tuples_returned(oid)) FROM pg_class
    WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace""")
"""Entries of tables and indexes that were gone through over this connection, since its count began anew."""


def test_an_answer_reads_its_own_sweep_whatever_else_is_stored(store: Store, client: TestClient) -> None:
    instruments.fill_instruments(store, filling.Size("one", 8, 1))
    filling.fill(store, filling.Size("lr", 8, 1))
    with store.read() as session:
        cell = session.scalars(select(Cell.id).join(Sweep).where(Sweep.name == "one")).first()
    paths = [
        *(f"sweeps/lr/{question}" for question in (*OF_LOSSES, "head-curve", "grid", "statistics")),
        *(f"sweeps/one/{question}" for question in (*OF_INSTRUMENTS, "cells", f"cells/{cell}", "jobs")),
        *("sweeps", "sweeps/one", "jobs", "sweeps/one/evaluations.csv"),
    ]
    filling.analyze(store)
    alone = {path: _read(store, client, path) for path in paths}
    for number in range(SWEEPS - 2):
        filling.fill(store, filling.Size(f"other-{number}", 8, 1))
    filling.analyze(store)
    beside = {path: _read(store, client, path) for path in paths}
    # two indexes of all jobs, which PostgreSQL rather goes through than looks for some hundred jobs in
    most = {path: alone[path] + 2 * JOBS * SWEEPS for path in paths}
    assert {path: beside[path] for path in paths if beside[path] > most[path]} == {}


def _read(store: Store, client: TestClient, path: str) -> int:
    """How many entries an answer went through that nothing was kept of."""
    with store.write() as session:
        session.query(Sweep).update(
            {"version": Sweep.version + 1, "results_version": Sweep.results_version + 1}
        )
    with _generic_plans(store) as read:
        assert client.get(f"/api/v1/{path}").status_code == 200
    return sum(read)


@contextmanager
def _generic_plans(store: Store) -> Iterator[list[int]]:
    """Every statement is prepared, and planned for any parameters; what each transaction read."""
    read: list[int] = []

    def check_out(driver: Any, *_: object) -> None:
        driver.autocommit = True
        driver.prepare_threshold = 0
        driver.execute("SET plan_cache_mode = force_generic_plan")
        driver.execute("SELECT pg_stat_force_next_flush()")  # and that count begins anew

    def commit(connection: Connection) -> None:
        if not connection.get_execution_options().get("headcount_looks"):  # which is no transaction
            read.append(int(connection.execute(_READ).scalar_one()))

    event.listen(store.engine, "checkout", check_out)
    event.listen(store.engine, "commit", commit)
    yield read
    event.remove(store.engine, "checkout", check_out)
    event.remove(store.engine, "commit", commit)
    store.engine.dispose()  # the connections that are set so

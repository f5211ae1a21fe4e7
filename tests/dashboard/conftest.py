"""A store with sweeps in every condition: finished, in flight, without a result, and full of hostile text."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import CONTROL, JobKey, build_sweep
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store

IN_FLIGHT: dict[JobKey, str] = {
    (16, 1, 1e-3, 10): "diverged",
    (16, 4, 1e-3, 11): "failed",
    (8, 4, 1e-3, 12): "running",
    (1, 4, 1e-3, 10): "queued",
    (1, 4, 1e-3, 11): "queued",
    (1, 4, 1e-3, 12): "queued",
}


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Read by every test, written by none."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, "head-count")
        build_sweep(session, "in-flight", rates=(5e-4, 1e-3), seeds=(10, 11, 12), states=IN_FLIGHT)
        waiting = {(h, kv, 1e-3, 20): "queued" for h in (CONTROL, 1, 2, 4) for kv in (1, 2)}
        build_sweep(
            session,
            "waiting",
            heads=(1, 2, 4),
            kv_heads=(1, 2),
            seeds=(20,),
            states=waiting | {(CONTROL, 1, 1e-3, 20): "running"},
        )
    yield store
    store.close()


@pytest.fixture
def session(store: Store) -> Iterator[Session]:
    with store.read() as session:
        yield session


@pytest.fixture(scope="session")
def client(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """The whole service, addressed as on this machine; redirects are answers too."""
    home: Path = tmp_path_factory.mktemp("home")
    service = create_service(store, Settings(home, str(store.engine.url), home / "artifacts"))
    with TestClient(service, base_url="http://127.0.0.1:8321", follow_redirects=False) as client:
        yield client

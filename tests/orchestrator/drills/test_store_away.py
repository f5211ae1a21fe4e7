"""PostgreSQL goes away for a while: nothing is lost, and nothing is trained twice."""

import select as sockets
import socket
import threading
import time
from collections.abc import Callable

import pytest
from scheduled import asked_for, attempts, reports, settled, work
from sqlalchemy import make_url

from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.bench.trivial import REPORTS
from headcount.orchestrator.store import open_store


class Line:
    """A way to a server of PostgreSQL that can be cut and joined."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._listen()

    def cut(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            end.close()

    def join(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        try:
            while True:
                near, _ = listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._server)
                self._open += [near, far]
                threading.Thread(target=_pump, args=(near, far), daemon=True).start()
        except OSError:
            return  # cut


def _pump(near: socket.socket, far: socket.socket) -> None:
    other = {near: far, far: near}
    try:
        while True:
            for ready in sockets.select(list(other), [], [])[0]:
                if not (part := ready.recv(65536)):
                    return
                other[ready].sendall(part)
    except (OSError, ValueError):
        return  # cut
    finally:
        near.close()
        far.close()


@pytest.fixture
def line(postgres: Callable[[], str]) -> tuple[Line, str]:
    """A line to an empty store, and the store's URL over it."""
    url = make_url(postgres())
    folder = url.query["host"]
    line = Line(f"{folder}/.s.PGSQL.{url.port or 5432}")
    through = url.set(host="127.0.0.1", port=line.port).difference_update_query(["host"])
    return line, through.render_as_string(hide_password=False)


@pytest.mark.parametrize("seconds", [2.0, pytest.param(20.0, marks=pytest.mark.drill)], ids=["short", "long"])
def test_postgresql_away_costs_no_result_and_no_second_attempt(
    line: tuple[Line, str], seconds: float
) -> None:
    cable, url = line
    store = open_store(url)
    asked_for(store, 75)
    cluster = StandIn(slots=5, job_seconds=0.2)
    away: list[threading.Thread] = []

    def leave() -> None:
        cable.cut()
        time.sleep(seconds)
        cable.join()

    def until() -> bool:
        if not away and len(cluster.jobs) > 20:
            away.append(threading.Thread(target=leave))
            away[0].start()
        if not away or away[0].is_alive():
            return False
        return settled(store) == {"finished": 75}

    work(store, cluster, until, 60 + seconds)
    assert attempts(store) == [("finished", 75)]
    assert reports(store) == 75 * len(REPORTS)
    print(f"PostgreSQL away for {seconds:g} s: 75 jobs finished once each")
    store.close()

"""A scheduler over a real store and a stand-in for the cluster, while something around it fails."""

import itertools
import select as sockets
import socket
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, make_url, select

from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.bench.trivial import REPORTS, trivial_plan
from headcount.orchestrator.scheduling import lease as lease_module
from headcount.orchestrator.scheduling.hearing import Hearing
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.scheduler import Scheduler
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.store import Store, journal, open_store, submit, transitions, withdraw
from headcount.orchestrator.store.models import Attempt, Evaluation, Job, SweepJob


def asked_for(store: Store, jobs: int) -> int:
    with store.write() as session:
        return submit(session, trivial_plan(jobs), "tester").sweep_id


def work(store: Store, cluster: StandIn, until: Callable[[], bool], seconds: float = 60) -> None:
    """Schedule until `until` holds; fails after so long. The lease is given back, however it ends."""
    lease = Lease.acquire(store)
    deadline = time.monotonic() + seconds

    def over() -> bool:
        assert time.monotonic() < deadline
        return until()

    try:
        Scheduler(lease, cluster, Waits()).run(over)
    finally:
        lease.release()


def settled(store: Store) -> dict[str, int]:
    with store.read() as session:
        return dict(session.execute(select(Job.state, func.count()).group_by(Job.state)).all())


def attempts(store: Store) -> list[tuple[str | None, int]]:
    """How many ended by each cause, once told that no job has more than one result."""
    with store.read() as session:
        finished = select(Attempt.job_id).where(Attempt.cause == "finished")
        assert session.execute(finished.group_by(Attempt.job_id).having(func.count() > 1)).all() == []
        causes = select(Attempt.cause, func.count()).group_by(Attempt.cause)
        return [(cause, count) for cause, count in session.execute(causes)]


def reports(store: Store) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(Evaluation)) or 0


class Killed(BaseException):
    """As if the process had been killed: nothing of ours catches it."""


def test_a_scheduler_killed_between_writing_and_dispatching_loses_no_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has the attempt and its slot never heard of it: the next scheduler begins it there."""
    asked_for(store, 25)
    cluster = StandIn(slots=3, job_seconds=0.05)
    begin, calls = Hearing.start, itertools.count()

    def start(self: Hearing, *arguments: object) -> None:
        if next(calls) == 4:
            raise Killed
        begin(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Hearing, "start", start)
    with pytest.raises(Killed):
        work(store, cluster, lambda: False)
    work(store, cluster, lambda: settled(store) == {"finished": 25})
    assert attempts(store) == [("finished", 25)]
    assert reports(store) == 25 * len(REPORTS)


def test_a_clock_that_jumps_by_an_hour_and_back_costs_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for(store, 50)
    cluster = StandIn(slots=4, job_seconds=0.05)
    ahead = [timedelta(0)]
    for module in (journal, lease_module, transitions):
        monkeypatch.setattr(module, "now", lambda: datetime.now(UTC) + ahead[0])
    monkeypatch.setattr(lease_module, "LEASE_SECONDS", 1.0)

    def until() -> bool:
        done = settled(store).get("finished", 0)
        ahead[0] = timedelta(hours=1 if 10 <= done < 30 else 0 if done < 10 else -1)
        return done == 50

    work(store, cluster, until)
    assert attempts(store) == [("finished", 50)]
    assert reports(store) == 50 * len(REPORTS)


def test_cancelling_a_thousand_waiting_and_eight_running_jobs_is_decided_within_five_seconds(
    store: Store,
) -> None:
    """A second sweep wants 25 of them still: those are trained."""
    sweep = asked_for(store, 1025)
    with store.write() as session:
        submit(session, trivial_plan(25, "other"), "tester")
        kept = set(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id != sweep)))
    cluster = StandIn(slots=8, job_seconds=1.0)
    moments: list[float] = []

    def until() -> bool:
        if not moments and len(cluster.jobs) >= 8:
            with store.write() as session:
                assert withdraw(session, sweep) >= 1000
            moments.append(time.monotonic())
        with store.read() as session:
            undecided = select(Job.id).where(Job.state.in_(("queued", "running", "cancelling")))
            return bool(moments) and set(session.scalars(undecided)) <= kept

    work(store, cluster, until)
    assert time.monotonic() - moments[0] < 5
    with store.read() as session:
        gone = set(session.scalars(select(Job.id).where(Job.state == "cancelled")))
    assert len(gone) >= 1000 - 8
    assert not gone & kept


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
    store.close()

"""A scheduler over a real store and a stand-in for the cluster, while something around it fails."""

import itertools
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from plans import start
from scheduled import asked_for, attempts, reports, settled, work
from sqlalchemy import select

from headcount.orchestrator.bench.stand_in import SleepingSlot, StandIn
from headcount.orchestrator.bench.trivial import REPORTS, trivial_plan
from headcount.orchestrator.scheduling import hearing as hearing_module
from headcount.orchestrator.scheduling import lease as lease_module
from headcount.orchestrator.scheduling import scheduler as scheduler_module
from headcount.orchestrator.scheduling.hearing import Hearing
from headcount.orchestrator.store import Store, journal, recording, submit, transitions, withdraw
from headcount.orchestrator.store.models import Attempt, Job, Sweep, SweepJob


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
    print("a scheduler killed between writing an attempt and handing it over: 25 jobs finished once each")


def test_a_clock_that_jumps_by_an_hour_and_back_costs_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for(store, 50)
    cluster = StandIn(slots=4, job_seconds=0.05)
    ahead = [timedelta(0)]
    for module in (journal, lease_module, recording, transitions):
        monkeypatch.setattr(module, "now", lambda: datetime.now(UTC) + ahead[0])
    monkeypatch.setattr(lease_module, "LEASE_SECONDS", 1.0)

    def until() -> bool:
        done = settled(store).get("finished", 0)
        ahead[0] = timedelta(hours=1 if 10 <= done < 30 else 0 if done < 10 else -1)
        return done == 50

    work(store, cluster, until)
    assert attempts(store) == [("finished", 50)]
    assert reports(store) == 50 * len(REPORTS)
    print("the clock an hour ahead, then an hour behind: 50 jobs finished once each")


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
    took = time.monotonic() - moments[0]
    assert took < 5
    with store.read() as session:
        gone = set(session.scalars(select(Job.id).where(Job.state == "cancelled")))
    assert len(gone) >= 1000 - 8
    assert not gone & kept
    print(f"{len(gone)} jobs cancelled and {len(kept)} kept: decided within {took:.2f} s")


def test_a_job_that_does_not_stop_when_it_is_asked_loses_its_slot(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that is in a long call into C code."""
    monkeypatch.setattr(scheduler_module, "CANCEL_SECONDS", 0.3)
    monkeypatch.setattr(SleepingSlot, "_stop", lambda self, attempt_id, cause: None)
    sweep = asked_for(store, 25)
    cluster = StandIn(slots=1, job_seconds=60.0)
    asked: list[float] = []
    states: list[set[str]] = []

    def until() -> bool:
        if cluster.jobs and not asked:
            with store.write() as session:
                withdraw(session, sweep)
            asked.append(time.monotonic())
        states.append(set(settled(store)))
        return states[-1] == {"cancelled"}

    work(store, cluster, until)
    assert {"cancelling", "cancelled"} in states  # until the slot was gone
    assert attempts(store) == [("cancelled", 1)]
    assert cluster.live_slots() == {}
    with store.read() as session:
        assert session.scalars(select(Attempt.message)).all() == ["stopped by force"]


def test_what_runs_when_the_time_of_its_sweep_is_up_goes_back_to_the_queue(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for jobs that another sweep wants, which has no end. Of the late one a job runs, to be measured."""
    monkeypatch.setattr(scheduler_module, "STOP_SECONDS", 0.3)
    with store.write() as session:
        late = submit(session, trivial_plan(50), "tester", journal.now() + timedelta(hours=1)).sweep_id
        submit(session, trivial_plan(25, "other", others=25), "tester")
        kept = set(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id != late)))
    cluster = StandIn(slots=26, job_seconds=60.0)
    ended: list[tuple[str, str | None]] = []

    def until() -> bool:
        if len(cluster.jobs) == 26:
            with store.write() as session:
                session.get_one(Sweep, late).stop_at = journal.now()
        with store.read() as session:
            found = select(Attempt.job_id, Attempt.cause).where(Attempt.ended.is_not(None))
            ended[:] = [(job, cause) for job, cause in session.execute(found)]
        return bool(ended)

    work(store, cluster, until)
    [(job, cause)] = ended
    assert cause == "preempted"
    assert job not in kept
    assert settled(store) == {"queued": 25, "running": 25}


def test_slots_without_a_job_leave_and_come_back_for_the_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hearing_module, "IDLE_SECONDS", 0.2)
    monkeypatch.setattr(scheduler_module, "FITTING_SECONDS", 0.1)
    asked_for(store, 25)
    cluster = StandIn(slots=3, job_seconds=0.02)
    seen: list[int] = []

    def until() -> bool:
        seen.append(len(cluster.live_slots()))
        if settled(store) == {"finished": 25} and seen[-1] == 0:
            with store.write() as session:
                submit(session, trivial_plan(25, "next", others=25), "tester")
        return settled(store) == {"finished": 50}

    work(store, cluster, until)
    assert max(seen) == 3
    assert 0 in seen[seen.index(3) :]


def test_of_many_who_take_one_job_at_once_one_gets_it(store: Store) -> None:
    asked_for(store, 25)
    with store.read() as session:
        job_id = session.scalars(select(Job.id).limit(1)).one()
    together = threading.Barrier(8)
    got: list[int] = []

    def take(number: int) -> None:
        together.wait()
        with store.write() as session:
            if start(session, job_id, f"slot-{number}") is not None:
                got.append(number)

    takers = [threading.Thread(target=take, args=(number,)) for number in range(8)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    assert len(got) == 1
    with store.read() as session:
        assert session.scalars(select(Attempt.slot)).all() == [f"slot-{got[0]}"]

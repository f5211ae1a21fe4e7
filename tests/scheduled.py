"""Trivial jobs worked off by a scheduler over a real store and a stand-in cluster, and what came of them."""

import time
from collections.abc import Callable

from homes import slowness
from sqlalchemy import func, select

from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.bench.trivial import trivial_plan
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.scheduler import Scheduler
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.store import Store, submit
from headcount.orchestrator.store.models import Attempt, Evaluation, Job


def asked_for(store: Store, jobs: int) -> int:
    with store.write() as session:
        return submit(session, trivial_plan(jobs), "tester").sweep_id


def work(store: Store, cluster: StandIn, until: Callable[[], bool], seconds: float = 60) -> None:
    """Schedule until `until` holds; fails after so many seconds of a quiet machine.

    The lease is given back, however it ends.
    """
    lease = Lease.acquire(store)
    began = time.monotonic()

    def over() -> bool:
        assert time.monotonic() < began + seconds * slowness()
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

"""The cluster that the scheduler is measured on, and the jobs."""

import time
from pathlib import Path

from sqlalchemy import func, select

from headcount.orchestrator.bench.scheduling import growth
from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.bench.trivial import REPORTS, trivial_plan
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.scheduler import Scheduler
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.store import Store, submit
from headcount.orchestrator.store.models import Attempt, Evaluation, Job


def test_plans_have_the_jobs_asked_for_and_none_of_another() -> None:
    first, second = trivial_plan(50), trivial_plan(25, "more", others=50)
    assert (len(first.jobs), len(second.jobs)) == (50, 25)
    assert not {job.id for job in first.jobs} & {job.id for job in second.jobs}


def test_every_job_is_worked_off_once_with_all_its_reports(store: Store) -> None:
    with store.write() as session:
        submit(session, trivial_plan(50), "tester")
    cluster = StandIn(slots=3, job_seconds=0.02)
    lease = Lease.acquire(store)
    scheduler = Scheduler(lease, cluster, Waits())
    deadline = time.monotonic() + 60

    def over() -> bool:
        assert time.monotonic() < deadline
        return len(cluster.jobs) == 50 and not scheduler.hearing.busy()

    begun = time.monotonic()
    scheduler.run(over)
    lease.release()
    assert len(scheduler.seats) == 3
    with store.read() as session:
        assert session.execute(select(Job.state, func.count()).group_by(Job.state)).all() == [
            ("finished", 50)
        ]
        assert session.scalar(select(func.count()).select_from(Evaluation)) == 50 * len(REPORTS)
        assert session.execute(select(Attempt.cause, Attempt.number).distinct()).all() == [("finished", 1)]
        job = session.scalars(select(Job).where(Job.seed == 7)).first()
        assert job is not None
        assert job.tail_mean == ((3.07 + 1 / 30) + (3.07 + 1 / 40)) / 2
    now = time.monotonic()
    assert abs(cluster.worked(begun, now) - 50 * 0.02) < 1e-9
    assert cluster.worked(now, now + 1) == 0


def test_the_part_of_a_job_inside_a_window_counts() -> None:
    cluster = StandIn(slots=1, job_seconds=1.0)
    cluster.jobs = [(10.0, 14.0), (15.0, 16.0)]
    assert cluster.worked(12.0, 15.5) == 2.5


def test_growth_is_told_by_length_of_queue_and_as_a_ratio(tmp_path: Path) -> None:
    plot = tmp_path / "growth.svg"
    figures = list(growth(tmp_path, None, sizes=(100, 200), repeats=1, plot=plot))
    assert [figure.name for figure in figures if not isinstance(figure, str)] == [
        "an event with 100 jobs queued",
        "an event with 200 jobs queued",
        "  200 against 100",
    ]
    small, large, ratio = (figure.value for figure in figures if not isinstance(figure, str))
    assert 0 < small < 50
    assert ratio == large / small
    assert "<svg" in plot.read_text()

"""Sweeps with a budget or an end give only the jobs that it holds, by what their jobs have taken."""

from datetime import timedelta

import pytest
from plans import SWEEP, finish, make_plan, start_next
from sqlalchemy import update

from headcount.orchestrator.store import Store, submit
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.limits import held_back, usage_of
from headcount.orchestrator.store.models import Attempt, Job, Sweep
from headcount.orchestrator.store.queue import next_jobs

BUDGET = SWEEP + "budget: {gpu_hours: 1.05}\n"


def _submit(store: Store, text: str, minutes_left: float | None = None) -> None:
    """A sweep of six like jobs whose first one has taken 20 minutes."""
    with store.write() as session:
        submission = submit(session, make_plan(text), "tester")
        sweep = session.get_one(Sweep, submission.sweep_id)
        sweep.created = now() - timedelta(hours=2)
        work = start_next(session)
        finish(session, work)
        attempt = session.get_one(Attempt, work.attempt_id)
        attempt.started, attempt.ended = now() - timedelta(minutes=50), now() - timedelta(minutes=30)
        session.execute(update(Job).values(flops=1.2e15))
        if minutes_left is not None:
            sweep.stop_at = now() + timedelta(minutes=minutes_left)


def test_a_budget_holds_as_many_jobs_as_fit_in_what_is_left(store: Store) -> None:
    _submit(store, BUDGET)
    with store.write() as session:
        sweep = session.get_one(Sweep, 1)
        usage = usage_of(session, sweep)
        assert (usage.used, usage.running) == (pytest.approx(1200), 0)
        assert usage.rate == pytest.approx(1e12)
        assert len(next_jobs(session, 10)) == 2  # 20 of 60 minutes are used
        start_next(session)
        assert len(next_jobs(session, 10)) == 1
        start_next(session)
        assert next_jobs(session, 10) == []
        assert usage_of(session, sweep).to_come == pytest.approx(2400)
        told = held_back(session, sweep)
        assert told is not None
        assert told.startswith("the budget of 1.05 GPU-hours holds no other, 0.33")


def test_a_share_of_a_card_uses_a_share_of_the_budget(store: Store) -> None:
    _submit(store, BUDGET)
    with store.write() as session:
        session.execute(update(Attempt).values(share=0.5))
        assert usage_of(session, session.get_one(Sweep, 1)).used == pytest.approx(600)
        assert len(next_jobs(session, 10)) == 5


@pytest.mark.parametrize(("minutes", "jobs"), [(21, 5), (19, 0), (-1, 0)])
def test_only_jobs_that_end_in_time_are_begun(store: Store, minutes: float, jobs: int) -> None:
    _submit(store, SWEEP, minutes)
    with store.read() as session:
        sweep = session.get_one(Sweep, 1)
        assert len(next_jobs(session, 10)) == jobs
        assert bool(held_back(session, sweep)) == (jobs == 0)


def test_a_job_that_is_half_done_takes_half_the_time(store: Store) -> None:
    _submit(store, SWEEP, 11)
    with store.write() as session:
        assert next_jobs(session, 10) == []
        half = make_plan().jobs[3].id
        session.execute(update(Job).where(Job.id == half).values(step=20))
        assert next_jobs(session, 10) == [half]


def test_one_job_measures_the_rate_that_is_not_known(store: Store) -> None:
    with store.write() as session:
        submit(session, make_plan(BUDGET), "tester")
        assert len(next_jobs(session, 10)) == 1
        work = start_next(session)
        sweep = session.get_one(Sweep, 1)
        sweep.created = now() - timedelta(hours=2)
        assert next_jobs(session, 10) == []
        assert held_back(session, sweep) is None
        attempt = session.get_one(Attempt, work.attempt_id)
        attempt.start_step, attempt.started = 0, now() - timedelta(minutes=1)
        session.execute(update(Job).where(Job.id == work.job_id).values(step=10))
        assert len(next_jobs(session, 10)) == 5


def test_a_job_that_another_sweep_wants_without_a_bound_runs(store: Store) -> None:
    _submit(store, SWEEP, -1)
    with store.write() as session:
        submit(session, make_plan(SWEEP.replace("tiny", "other")), "tester")
        assert len(next_jobs(session, 10)) == 5

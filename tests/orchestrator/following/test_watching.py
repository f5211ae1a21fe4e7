"""A sweep followed to its end: what is said and with which code, and when there is nothing more to come."""

import io
import re
from datetime import timedelta

import pytest
from plans import SWEEP, end, finish, make_plan, start_next, submit_text
from rich.console import Console
from sqlalchemy import update

from headcount.orchestrator.following.watching import look, watch_store
from headcount.orchestrator.store import Store, submit
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Attempt, Job, Sweep


def watch(store: Store) -> tuple[int, str]:
    """The exit code, and what is printed, with every time of seconds as 0 s."""
    screen = io.StringIO()
    code = watch_store("tiny", store, Console(width=120, file=screen))
    return code, re.sub(r"in \d s\b", "in 0 s", screen.getvalue())


def test_0_when_every_job_has_finished(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        for _ in range(6):
            finish(session, start_next(session))
    assert watch(store) == (0, "tiny: 6 finished, in 0 s\n")


def test_3_when_some_have_failed(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        end(session, work, "user_error", "Traceback\nValueError: no text")
        for _ in range(5):
            finish(session, start_next(session))
    code, printed = watch(store)
    assert code == 3
    assert printed.splitlines() == [
        "tiny: 5 finished, 1 failed, in 0 s",
        f"  failed {work.job_id[:8]} - seed=0: ValueError: no text",
        "How its attempts ended: headcount why JOB",
    ]


@pytest.mark.parametrize("budget", [True, False])
def test_3_when_the_budget_or_the_time_is_up(store: Store, budget: bool) -> None:
    with store.write() as session:
        submit(session, make_plan(SWEEP + ("budget: {gpu_hours: 0.1}\n" if budget else "")), "tester")
        sweep = session.get_one(Sweep, 1)
        sweep.created = now() - timedelta(hours=1)
        work = start_next(session)
        finish(session, work)
        session.execute(update(Job).values(flops=1e15))
        if not budget:
            sweep.stop_at = now() - timedelta(seconds=1)
        else:
            attempt = session.get_one(Attempt, work.attempt_id)
            attempt.started, attempt.ended = now() - timedelta(minutes=9), now() - timedelta(minutes=4)
    code, printed = watch(store)
    assert code == 3
    reason = "the budget of 0.1 GPU-hours holds no other, 0.0833 are used" if budget else "its time was up at"
    assert f"No more is begun: {reason}" in " ".join(printed.split())
    assert "queued -" not in printed


def test_a_sweep_whose_jobs_wait_is_not_over(store: Store) -> None:
    submit_text(store)
    found = look(store, "tiny")
    assert not found.is_over
    assert (found.state.waiting, found.held_back) == (6, None)

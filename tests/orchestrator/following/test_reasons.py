"""What a job waits for, and how its attempts ended, in words."""

import pytest
from plans import SWEEP, end, finish, make_plan, start_next, submit_text

from headcount.orchestrator.following.reasons import CAUSES, explain
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.store import Store, models, steering, withdraw
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Attempt
from headcount.trainer.errors import UserError

LAST = make_plan().jobs[-1].id
WISH = f"job {LAST[:12]}: queued\n  sweep tiny wants it: routing_heads=2 seed=1\n"
IDLE = "\nNo scheduler is at work: headcount run tiny, or headcount scheduler"


def why(store: Store, job: str = LAST) -> str:
    return "\n".join(explain(store, job))


def test_a_queued_job_waits_for_its_turn_and_for_a_scheduler(store: Store) -> None:
    submit_text(store)
    assert why(store) == f"{WISH}It waits for a free slot: 5 jobs before it, 0 jobs at work{IDLE}"
    lease = Lease.acquire(store)
    with store.write() as session:
        start_next(session)
    assert why(store) == f"{WISH}It waits for a free slot: 4 jobs before it, 1 job at work"
    lease.release()


def test_a_job_that_may_not_begin_says_what_bars_it(store: Store) -> None:
    submit_text(store, SWEEP + "resources: {max_parallel: 1}\n")
    with store.write() as session:
        start_next(session)
    assert why(store) == f"{WISH}tiny runs 1 job at a time, as its max_parallel says{IDLE}"
    with store.write() as session:
        steering.pause(session, 1, by="tester")
    paused = WISH.replace("wants it:", "wants it, and is paused: headcount resume tiny:")
    assert why(store) == f"{paused}No sweep lets it begin: it is paused wherever it is wanted{IDLE}"
    with store.write() as session:
        withdraw(session, 1, by="tester")
    assert why(store) == (
        f"job {LAST[:12]}: cancelled\n  sweep tiny does not want it now: routing_heads=2 seed=1\n"
        "A sweep that wants it queues it again: headcount run tiny"
    )


def test_what_keeps_the_scheduler_from_starting_jobs_is_told(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        session.add(models.Notice(subject="node a", words="its disk is full", since=now()))
    assert "\nnode a: its disk is full\n" in why(store)


def test_each_ended_attempt_is_told_with_its_cause(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        end(session, work, "slot_lost", "worker died")
        end(session, start_next(session), "user_error", "\n".join(f"line {n}" for n in range(30)))
        for attempt in session.query(Attempt):
            attempt.ended, attempt.node = attempt.started, f"host/{'0123456789abcdef' * 3}01234567"
    printed = why(store, work.job_id)
    assert f"Attempt 1 on host/01234567, 0 s: slot_lost: {CAUSES['slot_lost']}\n    worker died\n" in printed
    assert "    …\n    line 18\n" in printed
    assert printed.endswith(
        "It is not tried again by itself: headcount retry tiny\n"
        f"What it printed: headcount logs {work.job_id[:12]}"
    )


def test_a_finished_job_tells_its_result(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        finish(session, work)
    assert why(store, work.job_id).startswith(f"job {work.job_id[:12]}: finished, tail mean 3.1875\n")


def test_every_cause_has_words() -> None:
    assert set(CAUSES) == set(models.CAUSES)


def test_an_unknown_job_is_refused(store: Store) -> None:
    with pytest.raises(UserError, match="no job 'abc'; 'headcount jobs SWEEP' lists their ids"):
        explain(store, "abc")

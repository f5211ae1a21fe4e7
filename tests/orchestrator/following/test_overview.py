"""What the commands read from the store, and the time to go."""

from datetime import timedelta

import pytest
from plans import SWEEP, end, finish, make_plan, start_next, submit_text
from sqlalchemy import select

from headcount.orchestrator.following.live import duration
from headcount.orchestrator.following.overview import find_job, find_sweep, job_lines, sweep_state
from headcount.orchestrator.following.time_to_go import TimeToGo, time_to_go
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Attempt, Job
from headcount.orchestrator.store.recording import record_events
from headcount.trainer.errors import UserError


def test_a_sweep_is_counted_by_state(store: Store) -> None:
    submit_text(store)
    progress = {"kind": "progress", "step": 7, "loss": 2.5, "learning_rate": 1e-3, "gradient_norm": 1.0}
    with store.write() as session:
        finish(session, start_next(session))
        failed = start_next(session)
        end(session, failed, "user_error", "Traceback\nValueError: no")
        running = start_next(session)
        record_events(session, running.attempt_id, 0, [{**progress, "tokens_per_second": 99.0}])
    with store.read() as session:
        sweep = find_sweep(session, "tiny")
        state = sweep_state(session, sweep)
        assert state.words == "1 finished, 1 failed, 1 running, 3 queued"
        assert (state.jobs, state.waiting) == (6, 4)
        [job] = state.running
        assert (job.id, job.step, job.steps, job.loss) == (running.job_id, 7, 40, 2.5)
        lines = job_lines(session, sweep)
        assert [line.id for line in lines] == [job.id for job in make_plan().jobs]
        assert [line.state for line in lines[:4]] == ["finished", "failed", "running", "queued"]
        assert lines[1].message == "Traceback\nValueError: no"
        assert [line.attempts for line in lines] == [1, 1, 1, 0, 0, 0]


def test_names_and_ids_are_found_by_what_is_unmistakable(store: Store) -> None:
    submit_text(store, SWEEP.replace("[0, 1]", str(list(range(40)))))
    with store.read() as session:
        with pytest.raises(UserError, match="no sweep 'tinny'; did you mean 'tiny'"):
            find_sweep(session, "tinny")
        ids = session.scalars(select(Job.id)).all()
        assert find_job(session, ids[0]).id == ids[0]
        assert find_job(session, ids[0][:12].upper()).id == ids[0]
        common = next(d for d in "0123456789abcdef" if sum(i.startswith(d) for i in ids) > 1)
        with pytest.raises(UserError, match="is the beginning of several jobs"):
            find_job(session, common)
        for wrong in ("xyz", "", "%", "_"):
            with pytest.raises(UserError, match="no job"):
                find_job(session, wrong)


def test_the_time_to_go_spans_the_rates_that_were_measured(store: Store) -> None:
    """Two jobs took 10 and 20 s; of four left, two run, one of them half done: 2 rounds of a slot."""
    submit_text(store)
    with store.write() as session:
        for seconds in (10, 20):
            work = start_next(session)
            finish(session, work)
            attempt = session.get_one(Attempt, work.attempt_id)
            assert attempt.ended is not None
            attempt.started = attempt.ended - timedelta(seconds=seconds)
        assert time_to_go(session, find_sweep(session, "tiny")) is None  # nothing runs
        start_next(session)
        session.get_one(Job, start_next(session).job_id).step = 20
        session.flush()
        to_go = time_to_go(session, find_sweep(session, "tiny"))
    assert isinstance(to_go, TimeToGo)
    # control and treatments differ by 2 % in operations
    assert to_go.least == pytest.approx(20, rel=0.05)
    assert to_go.most == pytest.approx(40, rel=0.05)


def test_there_is_no_time_to_go_before_a_job_has_finished(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        start_next(session)
        assert time_to_go(session, find_sweep(session, "tiny")) is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "0 s"), (59, "59 s"), (185, "3:05"), (7385, "2:03:05"), (59.9, "1:00")]
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert duration(seconds) == words

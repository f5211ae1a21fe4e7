"""How jobs move, and what an attempt may still write."""

import json
import math

import pytest
from plans import (
    EVALUATIONS,
    SWEEP,
    end,
    evaluation,
    finish,
    make_plan,
    records_of_a_job,
    start,
    start_next,
    submit_text,
)
from sqlalchemy import Text, cast, select

from headcount.orchestrator.store import Store, withdraw
from headcount.orchestrator.store.models import (
    Artifact,
    Attempt,
    Evaluation,
    Event,
    Job,
    Measurement,
    Progress,
    Sweep,
)
from headcount.orchestrator.store.queue import next_jobs
from headcount.orchestrator.store.recording import record_events
from headcount.orchestrator.store.transitions import MOST_ENDS, open_attempts
from headcount.trainer.tail import tail_mean


def test_dispatch_goes_by_priority_then_submission_then_position(store: Store) -> None:
    submit_text(store, SWEEP.replace("tiny", "first"))
    submit_text(store, SWEEP.replace("tiny", "second").replace("nano", "micro"))
    urgent = SWEEP.replace("tiny", "urgent").replace("steps: 40", "steps: 50") + "priority: 3\n"
    submit_text(store, urgent)
    texts = (urgent, SWEEP, SWEEP.replace("nano", "micro"))
    expected = [job.id for text in texts for job in make_plan(text).jobs]
    with store.read() as session:
        assert next_jobs(session, 100) == expected
        assert next_jobs(session, 2) == expected[:2]


def test_a_job_is_dispatched_once(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        assert start(session, work.job_id, "slot-2") is None
        assert [a.id for a in open_attempts(session)] == [work.attempt_id]


def test_max_parallel_bounds_the_jobs_of_its_sweep_only(store: Store) -> None:
    submit_text(store, SWEEP + "resources: {max_parallel: 2}\n")
    submit_text(store, SWEEP.replace("tiny", "other").replace("nano", "micro"))
    first = [job.id for job in make_plan().jobs]
    with store.write() as session:
        assert [j for j in next_jobs(session, 4) if j in first] == first[:2]
        start_next(session)
        start_next(session)
        assert not set(next_jobs(session, 100)) & set(first)
        assert len(next_jobs(session, 100)) == 6


def test_a_finished_job_has_the_tail_mean_of_its_stored_evaluations(store: Store) -> None:
    submit_text(store)
    records = records_of_a_job()
    with store.write() as session:
        work = start_next(session)
        assert not record_events(session, work.attempt_id, 0, records)
    with store.read() as session:
        job = session.get_one(Job, work.job_id)
        result = next(r for r in records if r["kind"] == "result")
        assert job.state == "finished"
        assert job.tail_mean == result["tail_mean"] == tail_mean(EVALUATIONS, 40)
        assert job.step == 40
        rows = select(Evaluation.step, Evaluation.loss).order_by(Evaluation.step)
        assert session.execute(rows).all() == EVALUATIONS
        measured = dict(session.execute(select(Measurement.name, Measurement.value)).all())
        assert measured == {"seconds": 1.5, "parameters": 100.0}
        attempt = session.get_one(Attempt, work.attempt_id)
        assert (attempt.cause, attempt.start_step, attempt.environment) == ("finished", 0, {"device": "cpu"})
        artifact = session.scalars(select(Artifact)).one()
        assert artifact.key == f"jobs/{job.id[:2]}/{job.id}/attempt-1/checkpoints/step-00000040.pt"


def test_files_of_the_result_are_named_and_a_spike_is_announced(store: Store) -> None:
    submit_text(store)
    records = records_of_a_job()
    purposes = {"model": "model.safetensors", "curve": "training_loss.npy"}
    records[-2:-2] = [
        {"kind": "routing", "step": 40, "entropy": [0.0], "top_source": [0]},
        {"kind": "spike", "step": 12, "steps": 3, "highest": 1.4},
        *(
            {"kind": "artifact", "purpose": purpose, "step": 40, "file": file, "sha256": "ef" * 32}
            for purpose, file in [*purposes.items(), *purposes.items()]  # told twice after a restart
        ),
    ]
    with store.write() as session:
        work = start_next(session)
        record_events(session, work.attempt_id, 0, records)
        folder = f"jobs/{work.job_id[:2]}/{work.job_id}/attempt-1"
        kept = session.execute(select(Artifact.kind, Artifact.key, Artifact.sha256)).all()
        assert set(kept) == {
            ("checkpoint", f"{folder}/checkpoints/step-00000040.pt", "cd" * 32),
            *((purpose, f"{folder}/{file}", "ef" * 32) for purpose, file in purposes.items()),
        }
        assert session.get_one(Job, work.job_id).state == "finished"
        (spiked,) = session.scalars(select(Event).where(Event.kind == "spiked"))
        assert spiked.detail == {"step": 12, "steps": 3}


def test_events_are_stored_once_however_often_they_are_told(store: Store) -> None:
    submit_text(store)
    records = records_of_a_job()
    with store.write() as session:
        work = start_next(session)
        assert record_events(session, work.attempt_id, 0, records[:3])
        assert record_events(session, work.attempt_id, 0, records[:3])
        assert record_events(session, work.attempt_id, 1, records[1:5])
        assert session.get_one(Attempt, work.attempt_id).last_event == 4
        evaluated = select(Event.id).where(Event.kind == "evaluated")
        assert len(session.scalars(evaluated).all()) == 4
        with pytest.raises(AssertionError, match="gap"):
            record_events(session, work.attempt_id, 6, records[6:])


def test_a_late_attempt_writes_nothing(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        zombie = start_next(session)
        record_events(session, zombie.attempt_id, 0, records_of_a_job()[:2])
        end(session, zombie, "slot_lost")
        current = start_next(session)
        assert (current.job_id, current.number) == (zombie.job_id, 2)
        assert not record_events(session, zombie.attempt_id, 2, records_of_a_job()[2:])
        assert session.get_one(Job, zombie.job_id).state == "running"
        assert session.scalars(select(Evaluation.step)).all() == [0]
        end(session, zombie, "finished")
        assert session.get_one(Attempt, zombie.attempt_id).cause == "slot_lost"


def test_a_resumed_attempt_replaces_what_it_trains_again(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        first = start_next(session)
        record_events(session, first.attempt_id, 0, records_of_a_job()[:5])
        end(session, first, "node_lost")
        second = start_next(session)
        started = {"kind": "started", "step": 10, "environment": {}}
        replayed = [started, evaluation(0, 5.5), evaluation(10, 4.0)]
        record_events(session, second.attempt_id, 0, replayed)
        rows = select(Evaluation.step, Evaluation.attempt_id).order_by(Evaluation.step)
        assert session.execute(rows).all() == [(0, second.attempt_id), (10, second.attempt_id)]
        assert session.get_one(Job, first.job_id).step == 10
        told = session.scalars(select(Event.detail).where(Event.kind == "evaluated")).all()
        assert [d["step"] for d in told] == [0, 10, 20, 30]


def test_losses_that_are_not_finite_are_null_and_the_job_has_diverged(store: Store) -> None:
    submit_text(store)
    progress = {
        "kind": "progress",
        "step": 7,
        "loss": math.inf,
        "learning_rate": 1e-3,
        "gradient_norm": math.nan,
        "tokens_per_second": 9.0,
    }
    result = {"kind": "result", "outcome": "diverged", "step": 8, "tail_mean": None, "measurements": {}}
    with store.write() as session:
        work = start_next(session)
        started = {"kind": "started", "step": 0, "environment": {}}
        result["measurements"] = {"seconds": math.nan}
        record_events(session, work.attempt_id, 0, [started, evaluation(0, math.nan), progress, result])
    with store.read() as session:
        job = session.get_one(Job, work.job_id)
        assert (job.state, job.diverged_step, job.tail_mean) == ("diverged", 8, None)
        row = session.scalars(select(Progress)).one()
        assert (row.loss, row.gradient_norm, row.learning_rate) == (None, None, 1e-3)
        assert session.scalars(select(Evaluation.loss)).all() == [None]
        assert session.scalars(select(Measurement.value)).all() == [None]


def test_progress_is_thinned(store: Store) -> None:
    submit_text(store, SWEEP.replace("steps: 40, eval_every: 5", "steps: 40000, eval_every: 1000"))
    template = {"kind": "progress", "loss": 1.0, "learning_rate": 0.1, "gradient_norm": 1.0}
    points = [{**template, "step": step, "tokens_per_second": 1.0} for step in range(10, 1010, 10)]
    with store.write() as session:
        work = start_next(session)
        record_events(session, work.attempt_id, 0, points)
        assert session.scalars(select(Progress.step)).all() == list(range(100, 1001, 100))
        assert session.get_one(Job, work.job_id).step == 1000


def test_a_user_error_is_not_tried_again(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        end(session, work, "user_error", "Traceback …\nValueError: no")
        assert session.get_one(Job, work.job_id).state == "failed"
        assert work.job_id not in next_jobs(session, 10)


def test_every_attempt_gets_the_stored_configuration_byte_for_byte(store: Store) -> None:
    submit_text(store)
    stored = select(cast(Job.config, Text))
    with store.write() as session:
        first = start_next(session)
        before = session.scalars(stored.where(Job.id == first.job_id)).one()
        end(session, first, "slot_lost", "worker died")
        second = start_next(session)
        assert session.scalars(stored.where(Job.id == first.job_id)).one() == before
    assert (second.job_id, second.number, second.seed) == (first.job_id, 2, first.seed)
    assert json.dumps({**first.config, "seed": first.seed}) == json.dumps(json.loads(before))
    assert json.dumps(second.config) == json.dumps(first.config)


def test_infrastructure_ends_are_tried_again_until_too_many_bring_no_checkpoint(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        for _ in range(MOST_ENDS - 1):
            end(session, start_next(session), "slot_lost")
        work = start_next(session)
        record_events(session, work.attempt_id, 0, [records_of_a_job()[0], records_of_a_job()[7]])
        end(session, work, "slot_lost")  # but it has left a checkpoint
        for number in range(MOST_ENDS):
            assert session.get_one(Job, work.job_id).state == "queued", number
            end(session, start_next(session), "node_lost", "the machine went away")
        assert session.get_one(Job, work.job_id).state == "failed"
        last = session.scalars(select(Attempt).order_by(Attempt.id.desc())).first()
        assert last is not None
        assert last.message == "the machine went away\ngiven up after 5 ends without a new checkpoint"
    submit_text(store)  # the user asks again: the count starts anew
    with store.write() as session:
        assert start_next(session).job_id == work.job_id
        assert start_next(session).job_id != work.job_id


def test_a_lost_slot_of_a_cancelled_job_settles_it(store: Store) -> None:
    submission = submit_text(store)
    with store.write() as session:
        work = start_next(session)
        withdraw(session, submission.sweep_id)
        end(session, work, "slot_lost")
        assert session.get_one(Job, work.job_id).state == "cancelled"


def test_on_failure_stop_withdraws_what_is_left(store: Store) -> None:
    submit_text(store, SWEEP + "on_failure: stop\n")
    with store.write() as session:
        finish(session, start_next(session))
        running, failing = start_next(session), start_next(session, "slot-2")
        end(session, failing, "user_error", "no")
        states = session.scalars(select(Job.state).order_by(Job.state)).all()
        assert states == ["cancelled", "cancelled", "cancelled", "cancelling", "failed", "finished"]
        assert session.get_one(Job, running.job_id).state == "cancelling"


def test_what_a_running_job_tells_raises_the_version_but_not_that_of_tables(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        work = start_next(session)
        records = records_of_a_job()[:-1]  # with its result the attempt is closed
        versions = []
        for number, record in enumerate(records):
            record_events(session, work.attempt_id, number, [record])
            versions.append(session.execute(select(Sweep.version, Sweep.results_version)).one())
    for record, before, after in zip(records[1:], versions, versions[1:], strict=False):
        assert after.version > before.version
        assert (after.results_version > before.results_version) == (record["kind"] != "evaluation"), record


def test_every_change_raises_the_version_of_every_sweep_that_shows_it(store: Store) -> None:
    submit_text(store)
    submit_text(store, SWEEP.replace("tiny", "other"))
    with store.read() as session:
        before = session.scalars(select(Sweep.version).order_by(Sweep.id)).all()
    with store.write() as session:
        finish(session, start_next(session))
    with store.read() as session:
        after = session.scalars(select(Sweep.version).order_by(Sweep.id)).all()
        assert all(b > a for a, b in zip(before, after, strict=True))
        kinds = select(Event.kind).where(Event.sweep_id == 2).order_by(Event.id)
        assert session.scalars(kinds).all() == [
            "submitted",
            "dispatched",
            "started",
            *["evaluated"] * 6,
            "settled",
        ]

"""Instruments as jobs of the store: when they begin, what ends them, and what they leave alone."""

from typing import Any

import pytest
from plans import SWEEP, end, finish, make_plan, start_next, submit_text
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.api.results.instruments import figures
from headcount.orchestrator.following.instruments import failed_instruments, instruments_of
from headcount.orchestrator.following.overview import find_sweep, sweep_state
from headcount.orchestrator.store import Store, withdraw
from headcount.orchestrator.store.instruments import Measured, store_measured
from headcount.orchestrator.store.models import Artifact, Event, Job, Measurement, SweepInstrument
from headcount.orchestrator.store.queue import Queue, next_jobs
from headcount.orchestrator.store.recording import record_events
from headcount.orchestrator.store.steering import delete_sweep, pause, retry
from headcount.orchestrator.store.transitions import Work, job_folder
from headcount.trainer.config import NUMERICS

PROBED = SWEEP + "order: axis\nprobe: {where: model.routing_heads == 1, seeds: [0]}\n"


def train_parent(session: Session, text: str = PROBED) -> Work:
    """Finish the one job that `PROBED` probes, whose model lies there; the others wait."""
    [probe] = make_plan(text).instruments
    while (work := start_next(session)).job_id != probe.parent_id:
        finish(session, work)
    model = {
        "kind": "artifact",
        "purpose": "model",
        "step": 40,
        "file": "model.safetensors",
        "sha256": "ef" * 32,
    }
    record_events(session, work.attempt_id, 0, [{"kind": "started", "step": 0, "environment": {}}, model])
    result = {"kind": "result", "outcome": "finished", "step": 40, "tail_mean": 3.0, "measurements": {}}
    evaluations = [
        {"kind": "evaluation", "step": step, "loss": 3.0, "window_losses": []} for step in (30, 35, 40)
    ]
    ended = {"kind": "ended", "cause": "finished", "message": None}
    record_events(session, work.attempt_id, 2, [*evaluations, result, ended])
    return work


def told(value: float = 0.25) -> list[dict[str, Any]]:
    """What a slot tells of a probe."""
    return [
        {"kind": "started", "step": 0, "environment": {"device": "cpu"}},
        {"kind": "artifact", "purpose": "probe", "step": 40, "file": "probe.json", "sha256": "ab" * 32},
        {
            "kind": "result",
            "outcome": "finished",
            "step": 40,
            "tail_mean": None,
            "measurements": {"probe.excess": value},
        },
        {"kind": "ended", "cause": "finished", "message": None},
    ]


def test_a_probe_waits_for_its_parents_model_and_comes_next(store: Store) -> None:
    submit_text(store, PROBED)
    [probe] = make_plan(PROBED).instruments
    queue = Queue()
    with store.write() as session:
        queue.read(session)
        assert probe.id not in queue
        parent = train_parent(session)
        queue.read(session)  # by the event that the probe is ready
        assert probe.id in queue
        assert next_jobs(session, 1) == [probe.id]
        work = start_next(session)
        assert (work.kind, work.seed, work.fingerprint) == ("probe", parent.seed, parent.fingerprint)
        assert work.config["probe.windows"] == 64
        key, sha256 = work.model or ("", "")
        assert key.startswith(job_folder(parent.job_id))
        assert sha256 == "ef" * 32
        record_events(session, work.attempt_id, 0, told())
        record_events(session, work.attempt_id, 0, told(9.0))  # heard twice
    with store.read() as session:
        job = session.get_one(Job, probe.id)
        assert (job.state, job.numerics, job.tail_mean) == ("finished", NUMERICS, None)
        sweep = find_sweep(session, "tiny")
        [by_seed] = figures(session, "tiny", "probe.").told["probe.excess"].values()
        assert by_seed == {0: 0.25}
        assert session.scalar(select(Artifact.kind).where(Artifact.job_id == probe.id)) == "probe"
        state = sweep_state(session, sweep)
        assert state.jobs == len(make_plan().jobs)
        assert state.words.endswith("; probes: 1 finished")
        told_of = select(Event.kind).where(Event.job_id == probe.id, Event.sweep_id == sweep.id)
        assert session.scalars(told_of.order_by(Event.id)).all() == [
            "ready",
            "dispatched",
            "started",
            "settled",
        ]


def test_a_lost_slot_costs_an_attempt_and_a_closed_one_tells_nothing(store: Store) -> None:
    submit_text(store, PROBED)
    with store.write() as session:
        train_parent(session)
        lost = start_next(session)
        end(session, lost, "slot_lost")
        again = start_next(session)
        assert (again.job_id, again.number) == (lost.job_id, 2)
        record_events(session, again.attempt_id, 0, told(0.5))
        assert not record_events(session, lost.attempt_id, 0, told(0.75))  # the fence
        values = session.scalars(select(Measurement.value).where(Measurement.job_id == lost.job_id)).all()
        assert values == [0.5]


@pytest.mark.parametrize("cause", ["diverged", "user_error"])
def test_a_probe_ends_with_a_parent_that_leaves_no_model(store: Store, cause: str) -> None:
    submit_text(store, PROBED)
    [probe] = make_plan(PROBED).instruments
    with store.write() as session:
        while (work := start_next(session)).job_id != probe.parent_id:
            finish(session, work)
        end(session, work, cause)
        assert session.get_one(Job, probe.id).state == "cancelled"
        sweep = find_sweep(session, "tiny")
        assert instruments_of(session, sweep.id).waiting == 0
        if cause == "user_error":  # it may come yet
            assert retry(session, sweep.id, by="tester") == 1
            session.expire_all()
            assert session.get_one(Job, probe.id).state == "queued"


def test_a_failed_probe_stops_nothing_and_is_tried_again_on_demand(store: Store) -> None:
    text = PROBED + "on_failure: stop\n"
    submit_text(store, text)
    with store.write() as session:
        train_parent(session, text)
        work = start_next(session)
        end(session, work, "user_error", "Traceback\nno such text")
        sweep = find_sweep(session, "tiny")
        assert sweep_state(session, sweep).waiting > 0
        [failed] = failed_instruments(session, sweep.id)
        assert (failed.id, failed.message) == (work.job_id, "no such text")
    submission = submit_text(store, text)
    assert submission.requeued == 0  # of training jobs
    with store.read() as session:
        assert session.get_one(Job, work.job_id).state == "queued"


def test_cancel_pause_edit_and_delete_reach_what_waits(store: Store) -> None:
    submit_text(store, PROBED)
    [probe] = make_plan(PROBED).instruments
    with store.write() as session:
        train_parent(session)
        sweep = find_sweep(session, "tiny")
        pause(session, sweep.id, by="tester")
        assert next_jobs(session, 9) == []
        assert instruments_of(session, sweep.id).paused
        withdraw(session, sweep.id)
        session.expire_all()
        assert session.get_one(Job, probe.id).state == "cancelled"
    submit_text(store, PROBED)
    with store.write() as session:
        assert session.get_one(Job, probe.id).state == "queued"
    submit_text(store)  # without the probe
    with store.write() as session:
        assert session.get_one(Job, probe.id).state == "cancelled"
        assert session.scalar(select(func.count()).select_from(SweepInstrument)) == 0
    submit_text(store, PROBED)
    with store.write() as session:
        delete_sweep(session, find_sweep(session, "tiny").id, by="tester")
        assert session.get_one(Job, probe.id).state == "cancelled"


def test_what_a_command_measured_is_the_instruments_result(store: Store) -> None:
    submit_text(store, PROBED)
    [probe] = make_plan(PROBED).instruments
    found = Measured(
        "probe", probe.settings, {"probe.excess": 0.125, "probe.cross_head": None}, "k", "ab" * 32
    )
    with store.write() as session:
        train_parent(session)
        running = start_next(session)
        assert store_measured(session, probe.parent_id, found) is None  # a slot is at it
        end(session, running, "slot_lost")
        assert store_measured(session, probe.parent_id, found) == probe.id
        assert store_measured(session, probe.parent_id, found) == probe.id
        assert next_jobs(session, 1) != [probe.id]
    with store.read() as session:
        [by_seed] = figures(session, "tiny", "probe.").told["probe.excess"].values()
        assert by_seed == {0: 0.125}

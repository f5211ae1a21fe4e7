"""The spans of a sweep's attempts, with those that kept its slots meanwhile."""

from datetime import timedelta
from pathlib import Path

import pytest
from builders import START, build_sweep
from sqlalchemy import select

from headcount.api.results import NotFoundError
from headcount.api.results.timeline import Timeline, timeline
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Attempt, Job, SweepJob


def test_own_attempts_and_those_of_others_on_the_same_slots(tmp_path: Path) -> None:
    """Ours begin every 10 s and take 10, the last one runs; another's job keeps the slot at 5 to 25 s."""
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        mine = build_sweep(
            session, "mine", heads=(1, 2, 4), kv_heads=(1,), seeds=(0,), states={(4, 1, 1e-3, 0): "running"}
        )
        build_sweep(session, "other", heads=(1, 2, 4), kv_heads=(2,), seeds=(0,))
        theirs = session.scalars(
            select(Attempt)
            .join(SweepJob, SweepJob.job_id == Attempt.job_id)
            .where(SweepJob.sweep_id != mine)
            .order_by(Attempt.id)
        ).all()
        theirs[0].started, theirs[0].ended = START + timedelta(seconds=5), START + timedelta(seconds=25)
        theirs[1].slot = "slot-9"
        theirs[2].started = START + timedelta(hours=1)
        theirs[3].started = START - timedelta(hours=2)
        theirs[3].ended = START - timedelta(hours=1)
    with store.read() as session:
        found = timeline(session, "mine")
        cells = dict(
            session.execute(select(SweepJob.job_id, SweepJob.cell_id).where(SweepJob.sweep_id == mine)).all()
        )
        seeds = dict(session.execute(select(Job.id, Job.seed)).all())
        with pytest.raises(NotFoundError):
            timeline(session, "no")
    store.close()
    assert [(s.cell is not None, (s.started - START).seconds, s.seconds, s.cause) for s in found.spans] == [
        (True, 0, 10.0, "finished"),
        (False, 5, 20.0, "finished"),
        (True, 10, 10.0, "finished"),
        (True, 20, 10.0, "finished"),
        (True, 30, None, None),
    ]
    assert {span.job_id: (span.cell, span.seed) for span in found.own} == {
        job: (cell, seeds[job]) for job, cell in cells.items()
    }
    assert found.heard == START + timedelta(seconds=40)


def test_before_the_first_attempt_there_is_nothing(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        states = {(h, 1, 1e-3, 0): "queued" for h in (None, 1, 2, 4)}
        build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0,), states=states)
    with store.read() as session:
        assert timeline(session, "head-count") == Timeline((), None)
    store.close()

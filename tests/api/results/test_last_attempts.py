"""Of each job its newest attempt, by the rows that were written."""

from datetime import timedelta
from pathlib import Path

import pytest
from builders import START, build_sweep
from sqlalchemy import select

from headcount.api.results import NotFoundError
from headcount.api.results.last_attempts import LastAttempt, last_attempts
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Attempt, Job


def test_the_newest_attempt_counts(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        states = {(1, 1, 1e-3, 0): "queued", (2, 1, 1e-3, 0): "running"}
        build_sweep(session, heads=(1, 2), kv_heads=(1,), seeds=(0,), states=states, curves=False)
        build_sweep(session, "other", heads=(4,), kv_heads=(1,), seeds=(5,), curves=False)
        lost = session.scalars(select(Attempt).join(Job).where(Job.state == "running")).one()
        lost.cause, lost.message, lost.ended = "slot_lost", "gone", START
        again = {"job_id": lost.job_id, "number": 2, "epoch": 1, "slot": "s", "start_step": 0, "log": "a/log"}
        session.add(Attempt(**again, started=START + timedelta(seconds=1)))
        jobs = dict(session.execute(select(Job.state, Job.id).where(Job.state != "queued")).all())
    with store.read() as session:
        found = last_attempts(session, "head-count")
        assert found[jobs["running"]] == LastAttempt(2, None, None, True)
        control = next(job for job in found if job != jobs["running"])
        assert found[control] == LastAttempt(1, "finished", None, False)
        assert len(found) == 2
        with pytest.raises(NotFoundError):
            last_attempts(session, "no")
    store.close()

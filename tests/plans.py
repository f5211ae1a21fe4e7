"""Plans of sweeps whose text is only a fingerprint, and attempts that no slot runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

from headcount.orchestrator.artifacts.folder import FolderArtifacts
from headcount.orchestrator.store import Store, Submission, submit
from headcount.orchestrator.store.changes import gathered
from headcount.orchestrator.store.growth import growth_of
from headcount.orchestrator.store.models import Attempt
from headcount.orchestrator.store.queue import next_jobs
from headcount.orchestrator.store.recording import record_events
from headcount.orchestrator.store.transitions import Assignment, Work, dispatch, end_attempt
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.growth import Growth
from headcount.sweeps.planning.plan import NOTHING, Plan, plan
from headcount.trainer.config import DataConfig
from headcount.trainer.data import Manifest

SWEEP = """
name: tiny
job:
  model: {scale: nano, residual: mhar}
  train: {steps: 40, eval_every: 5}
axes:
  model.routing_heads: [1, 2]
seeds: [0, 1]
"""
"""Two cells and their control at two seeds: six jobs."""

FILES = FolderArtifacts(Path("nowhere"))
"""Of jobs that left none."""

EVALUATIONS = [(0, 5.5), (10, 4.0), (20, 3.5), (30, 3.25), (35, 3.1875), (40, 3.125)]


def make_plan(text: str = SWEEP, growth: Growth = NOTHING) -> Plan:
    return plan(parse_spec(text, "tiny.yaml"), _manifest, growth)


def _manifest(config: DataConfig) -> Manifest:
    return Manifest("ab" * 32, "words", 256, 100_000, 5_000, 3, 105_000)


def submit_text(store: Store, text: str = SWEEP) -> Submission:
    with store.write() as session:
        growth = growth_of(session, parse_spec(text, "tiny.yaml"))
        return submit(session, make_plan(text, growth), "tester")


def start_next(session: Session, slot: str = "slot-1") -> Work:
    """Dispatch the job whose turn it is."""
    work = start(session, next_jobs(session, 1)[0], slot)
    assert work is not None
    return work


def start(session: Session, job_id: str, slot: str = "slot-1", share: float | None = None) -> Work | None:
    """Dispatch a job; none where it is not queued."""
    with gathered(session) as changes:
        return dispatch(changes, 1, [Assignment(job_id, slot, "node", share)]).get(job_id)


def end(session: Session, work: Work, cause: str, message: str | None = None) -> None:
    end_attempt(session, session.get_one(Attempt, work.attempt_id), cause, message)


def records_of_a_job(evaluations: Sequence[tuple[int, float]] = EVALUATIONS) -> list[dict[str, Any]]:
    """What a slot tells of a job that finishes."""
    tail = [loss for step, loss in evaluations if step >= 30]
    return [
        {"kind": "started", "step": 0, "environment": {"device": "cpu"}},
        *(evaluation(step, loss) for step, loss in evaluations),
        {"kind": "checkpoint", "step": 40, "file": "step-00000040.pt", "sha256": "cd" * 32},
        {
            "kind": "result",
            "outcome": "finished",
            "step": 40,
            "tail_mean": sum(tail) / len(tail),
            "measurements": {"seconds": 1.5, "parameters": 100.0},
        },
        {"kind": "ended", "cause": "finished", "message": None},
    ]


def evaluation(step: int, loss: float) -> dict[str, Any]:
    return {"kind": "evaluation", "step": step, "loss": loss, "window_losses": [loss, loss]}


def finish(session: Session, work: Work) -> None:
    record_events(session, work.attempt_id, 0, records_of_a_job())

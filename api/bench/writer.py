"""The writer of a benchmark, as a process of its own: what a scheduler stores of the slots it listens to."""

import json
import sys
import time
from typing import Any

from sqlalchemy import delete, insert, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.bench.figures import Times
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Attempt, Evaluation, Job, Progress, Sweep, SweepJob
from headcount.orchestrator.store.recording import record_events

BATCH = 10
"""Events that a slot has to tell when it is asked: nine of progress and an evaluation."""


def reopen(session: Session, sweep: str, jobs: int) -> list[int]:
    """Let the last jobs of a sweep run again, from their start; their open attempts."""
    ids = session.scalars(
        select(SweepJob.job_id)
        .join(Sweep, Sweep.id == SweepJob.sweep_id)
        .where(Sweep.name == sweep)
        .order_by(SweepJob.position.desc())
        .limit(jobs)
    ).all()
    for told in (Evaluation, Progress):
        session.execute(delete(told).where(told.job_id.in_(ids)))
    fresh = {"state": "running", "step": 0, "tail_mean": None, "ended": None}
    session.execute(update(Job).where(Job.id.in_(ids)).values(**fresh))
    attempts = []
    for job in ids:
        number = 1 + len(session.scalars(select(Attempt.id).where(Attempt.job_id == job)).all())
        row = {"job_id": job, "number": number, "epoch": 1, "slot": "slot-0", "node": "bench"}
        made = session.execute(insert(Attempt).values(**row, started=now()).returning(Attempt.id))
        attempts.append(made.scalar_one())
    return attempts


def events(first: int, count: int) -> list[dict[str, Any]]:
    """Events of a job from number `first`, each tenth an evaluation."""
    return [
        {"kind": "evaluation", "step": 20 * n, "loss": 3.4, "window_losses": []}
        if n % BATCH == BATCH - 1
        else {
            "kind": "progress",
            "step": 20 * n,
            "loss": 3.4,
            "learning_rate": 1e-3,
            "gradient_norm": 0.5,
            "tokens_per_second": 1e5,
        }
        for n in range(first, first + count)
    ]


def write(store: Store, sweep: str, seconds: float, events_per_second: int) -> dict[str, Any]:
    """Store events at an even pace, a slot's batch a transaction; their milliseconds, and the rate."""
    with store.write() as session:
        attempts = reopen(session, sweep, 16)
    told = dict.fromkeys(attempts, 0)
    times = Times()
    begun = time.perf_counter()
    stored = 0
    while (elapsed := time.perf_counter() - begun) < seconds:
        due = stored / events_per_second
        if due > elapsed:
            time.sleep(due - elapsed)
        attempt = attempts[stored // BATCH % len(attempts)]
        with times.one(), store.write() as session:
            record_events(session, attempt, told[attempt], events(told[attempt], BATCH))
        told[attempt] += BATCH
        stored += BATCH
    return {"times": times.values, "events_per_second": stored / (time.perf_counter() - begun)}


if __name__ == "__main__":
    url, sweep, seconds, rate = sys.argv[1:]
    print(json.dumps(write(open_store(url), sweep, float(seconds), int(rate))))

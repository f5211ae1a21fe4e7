"""Sweeps that add to themselves by the scheduler's own steps; their jobs end with losses of the test's."""

import math
import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from plans import end, records_of_a_job, start, submit_text
from sqlalchemy import select

from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.search.growing import Growing
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Attempt, Sweep, Trial
from headcount.orchestrator.store.queue import next_jobs
from headcount.orchestrator.store.recording import record_events
from headcount.sweeps.file.spec import parse_spec

TINY = """
name: tiny
job:
  model: {scale: nano, residual: mhar}
  train: {steps: 40, eval_every: 5}
axes:
  model.routing_heads: [1, 2, 4]
"""
"""A sweep's file as far as its first axis."""

Loss = Callable[[Mapping[str, Any], int], float]
"""Of a job's configuration and seed; NaN for one that diverges."""


class Study:
    """A sweep in a store, taken to its end by steps of a scheduler that may be replaced at any of them."""

    def __init__(self, store: Store, text: str, begun: bool = False) -> None:
        self.store, self.text = store, text
        self.name = parse_spec(text, "tiny.yaml").name
        if not begun:
            self.begin()

    def begin(self) -> None:
        """Submit the file."""
        submit_text(self.store, self.text)

    def grow(self) -> None:
        """Let a new scheduler, which knows nothing but the store, take every step that is due."""
        lease = Lease.acquire(self.store)
        steps = Growing(lease, look_seconds=0)
        deadline = time.monotonic() + 60
        before = None
        while steps.is_thinking or before != (version := self.sweep.version):
            assert time.monotonic() < deadline, "a step without an end"
            before = version
            steps.step()
            if steps.is_thinking:
                time.sleep(0.005)
        steps.close()
        lease.release()

    def run(self, loss: Loss, most: int = 10_000, order: Random | None = None) -> int:
        """Grow and train until nothing is left to do, or so many jobs have run; how many have."""
        for count in range(most):
            self.grow()
            if not self.train_next(loss, order):
                return count
        return most

    def train_next(self, loss: Loss, order: Random | None = None) -> bool:
        """End the job whose turn it is, or any of those that wait, with its loss; false where none waits."""
        with self.store.write() as session:
            waiting = next_jobs(session, 100)
            if not waiting:
                return False
            job_id = order.choice(waiting) if order else waiting[0]
            work = start(session, job_id)
            assert work is not None
            value = loss(work.config, work.seed)
            if math.isnan(value):
                end(session, work, "diverged")
                return True
            losses = [(step, value + max(0, 30 - step) / 15) for step in range(0, 41, 5)]
            record_events(session, work.attempt_id, 0, records_of_a_job(losses))
        return True

    @property
    def sweep(self) -> Sweep:
        with self.store.read() as session:
            return session.scalars(select(Sweep).where(Sweep.name == self.name)).one()

    @property
    def trials(self) -> list[Trial]:
        with self.store.read() as session:
            return list(session.scalars(select(Trial).order_by(Trial.number)))

    @property
    def attempts(self) -> int:
        with self.store.read() as session:
            return len(session.scalars(select(Attempt.id)).all())

"""How long a sweep still takes, from the rates measured on it so far; no guess before there are any."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.limits import finished_rates
from headcount.orchestrator.store.models import SETTLED_STATES, Job, Sweep, SweepJob


@dataclass(frozen=True)
class TimeToGo:
    """Seconds until the last job settles: at the fastest and at the slowest rate measured."""

    least: float
    most: float


def time_to_go(session: Session, sweep: Sweep) -> TimeToGo | None:
    """None while nothing runs, or before the first job has finished."""
    rates = finished_rates(session, sweep)
    running, queued = _left(session, sweep)
    if not rates or not running:
        return None
    return TimeToGo(_makespan(running, queued, max(rates)), _makespan(running, queued, min(rates)))


def _left(session: Session, sweep: Sweep) -> tuple[list[float], list[float]]:
    """Operations left of the running and of the queued jobs that the sweep wants."""
    query = (
        select(Job.id, Job.state, Job.flops, Job.step)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .where(SweepJob.sweep_id == sweep.id, SweepJob.wanted, Job.state.not_in(SETTLED_STATES))
        .order_by(SweepJob.position)
    )
    running: list[float] = []
    queued: list[float] = []
    for job_id, state, flops, step in session.execute(query):
        # few jobs have begun: only their configurations are read
        done = step / session.get_one(Job, job_id).config["train.steps"] if step else 0.0
        (queued if state == "queued" else running).append(flops * (1 - done))
    return running, queued


def _makespan(running: Iterable[float], queued: Iterable[float], rate: float) -> float:
    """Seconds until the last job ends, when each slot takes the next queued job as it becomes free."""
    ends = [left / rate for left in running]
    heapq.heapify(ends)
    for left in queued:
        heapq.heappush(ends, heapq.heappop(ends) + left / rate)
    return max(ends)

"""How long a sweep still takes, from the rates measured on it so far; no guess before there are any."""

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.limits import finished_rates
from headcount.orchestrator.store.models import SETTLED_STATES, Job, Sweep, SweepJob
from headcount.sweeps.forecasting.makespan import makespan


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
    least, most = (
        makespan((left / rate for left in queued), (left / rate for left in running))
        for rate in (max(rates), min(rates))
    )
    return TimeToGo(least, most)


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

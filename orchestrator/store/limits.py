"""Budgets and ends of sweeps: what each may still begin, by the rates that its jobs were measured at.

Hours are those of whole slots: on GPUs GPU-hours, a part of a card counting as that part; on CPUs slot-hours.
They are counted from the times of attempts, since a sweep's submission, whoever else wanted the job as well.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Float, cast, func, or_, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Attempt, Job, Sweep, SweepJob
from headcount.sweeps.forecasting.allowance import Allowance, allowance

RECENT = 50
"""Attempts whose rates are looked at."""

SLOW = 10
"""The rate that counts is slower than all but one in this many: what is begun should end in time."""


@dataclass(frozen=True)
class Usage:
    """What a sweep's jobs have taken, and still take, in seconds of whole slots."""

    used: float
    running: int
    to_come: float | None
    """Of the running jobs; none where no rate is known."""
    rate: float | None
    """Operations a second of one job."""
    share: float
    """Slots that one job takes: cards, or a part of one."""


def allowances(session: Session) -> dict[int, Allowance]:
    """For every sweep with a budget or an end, what it may still begin."""
    limited = select(Sweep).where(or_(Sweep.gpu_hours.is_not(None), Sweep.stop_at.is_not(None)))
    return {sweep.id: sweep_allowance(session, sweep) for sweep in session.scalars(limited).all()}


def sweep_allowance(session: Session, sweep: Sweep) -> Allowance:
    """What one sweep may still begin."""
    usage = usage_of(session, sweep)
    slot_seconds = None
    if sweep.gpu_hours is not None:
        slot_seconds = (3600 * sweep.gpu_hours - usage.used - (usage.to_come or 0.0)) / usage.share
    seconds = (sweep.stop_at - now()).total_seconds() if sweep.stop_at is not None else None
    return allowance(usage.rate, usage.running, seconds=seconds, slot_seconds=slot_seconds)


def held_back(session: Session, sweep: Sweep) -> str | None:
    """Why no waiting job of a sweep is begun, and what lifts that; none where one may be, or none waits."""
    if sweep.gpu_hours is None and sweep.stop_at is None:
        return None
    waiting = list(
        session.scalars(
            select(flops_left())
            .join(SweepJob, SweepJob.job_id == Job.id)
            .where(SweepJob.sweep_id == sweep.id, SweepJob.wanted, ~SweepJob.paused, Job.state == "queued")
        )
    )
    if not waiting:
        return None
    allowed = sweep_allowance(session, sweep)
    measures_first = allowed.jobs == 0 and allowed.each > 0
    if measures_first or allowed.admits(min(waiting)):
        return None
    if sweep.stop_at is not None and min(waiting) > allowed.each:
        return f"none would end before {sweep.stop_at:%H:%M:%S} UTC; headcount run {sweep.name} goes on"
    used = usage_of(session, sweep).used / 3600
    return (
        f"the budget of {sweep.gpu_hours:g} GPU-hours holds no other, {used:.3g} are used; to go on, raise "
        "it in the sweep's file"
    )


def nothing_begins(session: Session, sweep: Sweep, waiting: int, running: int) -> str | None:
    """Why nothing of a sweep goes on, though so many of its jobs wait; none where something does or may."""
    if waiting and sweep.stop_at is not None and now() >= sweep.stop_at:
        return f"its time was up at {sweep.stop_at:%H:%M:%S} UTC; headcount run {sweep.name} goes on"
    return held_back(session, sweep) if waiting and not running else None


def late_jobs(session: Session) -> set[str]:
    """The running jobs of sweeps whose time is up, but for those that another sweep still wants."""
    moment = now()
    if session.scalar(select(Sweep.id).where(Sweep.stop_at <= moment).limit(1)) is None:
        return set()
    wanted = select(SweepJob).join(Sweep, Sweep.id == SweepJob.sweep_id)
    wanted = wanted.where(SweepJob.job_id == Job.id, SweepJob.wanted)
    by_late = wanted.where(Sweep.stop_at <= moment).exists()
    by_others = wanted.where(or_(Sweep.stop_at.is_(None), Sweep.stop_at > moment)).exists()
    return set(session.scalars(select(Job.id).where(Job.state == "running", by_late, ~by_others)))


def usage_of(session: Session, sweep: Sweep) -> Usage:
    """What a sweep has used since it was submitted, and at what rate its jobs go."""
    attempts = (
        select(Attempt)
        .join(SweepJob, SweepJob.job_id == Attempt.job_id)
        .where(SweepJob.sweep_id == sweep.id, Attempt.started >= sweep.created)
    )
    took = func.coalesce(Attempt.share, 1.0)
    ended = attempts.where(Attempt.ended.is_not(None)).with_only_columns(
        func.sum(took * _seconds(session, Attempt.started, Attempt.ended))
    )
    used = float(session.scalar(ended) or 0.0)
    newest = session.scalar(attempts.with_only_columns(took).order_by(Attempt.id.desc()).limit(1))
    share = newest or sweep.gpus_per_job * (sweep.gpu_share or 1.0)
    rates = finished_rates(session, sweep)
    left = 0.0
    open_jobs = attempts.where(Attempt.ended.is_(None)).join(Job, Job.id == Attempt.job_id)
    columns = (took, Attempt.started, Attempt.start_step, Job.step, Job.flops, flops_left())
    rows = session.execute(open_jobs.with_only_columns(*columns)).all()
    for its_share, started, start_step, step, flops, job_left in rows:
        seconds = max(1e-3, (now() - started).total_seconds())
        used += its_share * seconds
        left += its_share * job_left
        if start_step is not None and step > start_step:
            rates.append((flops - job_left) * (step - start_step) / step / seconds)
    rate = sorted(rates)[len(rates) // SLOW] if rates else None
    return Usage(used, len(rows), left / rate if rate else None, rate, share)


def flops_left() -> ColumnElement[float]:
    """Operations that a job still takes, from the step that was heard last."""
    steps = cast(Job.config["train.steps"].as_integer(), Float)
    return Job.flops * (1.0 - Job.step / steps)


def finished_rates(session: Session, sweep: Sweep) -> list[float]:
    """Of the newest attempts that trained a whole job of this sweep."""
    query = (
        select(Job.flops, Attempt.started, Attempt.ended)
        .join(Attempt, Attempt.job_id == Job.id)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .where(SweepJob.sweep_id == sweep.id, Attempt.cause == "finished", Attempt.start_step == 0)
        .order_by(Attempt.id.desc())
        .limit(RECENT)
    )
    return [
        flops / max(1e-3, (ended - started).total_seconds())
        for flops, started, ended in session.execute(query)
        if ended is not None
    ]


def _seconds(session: Session, start: Any, end: Any) -> ColumnElement[float]:
    """Seconds between two columns of moments."""
    if session.get_bind().dialect.name == "sqlite":
        return (func.julianday(end) - func.julianday(start)) * 86_400.0
    return cast(func.extract("epoch", end - start), Float)

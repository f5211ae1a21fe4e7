"""What the store has measured, for a plan's forecast: rates and memory of like jobs, the noise of deltas."""

import math
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import variance

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from headcount.orchestrator.store.models import RESULT_STATES, Attempt, Job, Measurement, SweepJob
from headcount.orchestrator.store.wishes import chunks
from headcount.sweeps.forecasting.speed import History, Measured
from headcount.sweeps.planning.plan import Plan
from headcount.trainer.config import FieldError, job_from_fields

RECENT = 500
"""Attempts that are looked at, the newest ones."""

MOST_PAIRS = 20_000


def read_history(session: Session, plan: Plan, slots: int | None = None) -> History:
    """What is known for `plan` on this machine's kind of device, or `slots` of them."""
    here = slots_here()
    device = (_newest_device(session) if os.environ.get("RAY_ADDRESS") else None) or (
        "cuda" if here[1] else "cpu"
    )
    hardware, jobs = _measured(session, device)
    sd, cells = _delta_noise(session, plan)
    return History(
        device=device,
        slots=slots or here[0],
        hardware=hardware,
        jobs=tuple(jobs),
        results=_results(session, plan),
        delta_sd=sd,
        delta_cells=cells,
    )


def _newest_device(session: Session) -> str | None:
    """Where the newest attempt was trained: a cluster's nodes need not be like this machine."""
    query = select(Attempt.environment).where(Attempt.cause == "finished").order_by(Attempt.id.desc())
    environment = session.scalar(query.limit(1))
    return str(environment["device"]) if environment and "device" in environment else None


def slots_here() -> tuple[int, bool]:
    """The slots that this machine's own Ray would hold, and whether each has a GPU: told without torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if visible is not None:
        cards = min(cards, len([name for name in visible.split(",") if name.strip() not in ("", "-1")]))
    return (cards, True) if cards else (len(os.sched_getaffinity(0)), False)


def _measured(session: Session, device: str) -> tuple[str | None, list[Measured]]:
    """The jobs that one attempt trained from start to end, on the newest hardware of that kind."""
    rows = session.execute(
        select(Job, Attempt.environment, Attempt.started, Attempt.ended, Measurement.value)
        .join(Attempt, Attempt.job_id == Job.id)
        .outerjoin(Measurement, (Measurement.job_id == Job.id) & (Measurement.name == "peak_memory_bytes"))
        .where(Attempt.cause == "finished", Attempt.start_step == 0, Job.kind == "train")
        .order_by(Attempt.id.desc())
        .limit(RECENT)
    )
    hardware: str | None = None
    found = []
    for job, environment, started, ended, peak in rows:
        if not environment or environment.get("device") != device or ended is None:
            continue
        hardware = hardware or str(environment.get("hardware"))
        seconds = (ended - started).total_seconds()
        if environment.get("hardware") != hardware or seconds <= 0:
            continue
        fields = {name: value for name, value in job.config.items() if name != "seed"}
        try:
            config = job_from_fields(fields, job.seed)
        except FieldError:
            continue  # of an earlier Headcount, whose jobs had other fields
        found.append(Measured(config, job.flops, seconds, peak))
    return hardware, found


def _results(session: Session, plan: Plan) -> dict[str, float | None]:
    results: dict[str, float | None] = {}
    for chunk in chunks([job.id for job in plan.jobs]):
        rows = select(Job.id, Job.tail_mean).where(Job.id.in_(chunk), Job.state.in_(RESULT_STATES))
        results.update(session.execute(rows).all())
    return results


def _delta_noise(session: Session, plan: Plan) -> tuple[float | None, int]:
    """Standard deviation of deltas within a cell, pooled over cells of the plan's size and length."""
    config = plan.jobs[0].config if plan.jobs else plan.to_come.config if plan.to_come else None
    if config is None:
        return None, 0
    like = {
        "model.d_model": config.model.d_model,
        "model.layers": config.model.layers,
        "train.steps": config.train.steps,
    }
    control = aliased(Job)
    pairs = (
        select(SweepJob.cell_id, Job.tail_mean - control.tail_mean)
        .join(Job, Job.id == SweepJob.job_id)
        .join(control, control.id == SweepJob.control_job_id)
        .where(Job.tail_mean.is_not(None), control.tail_mean.is_not(None))
        .where(*(Job.config[name].as_integer() == value for name, value in like.items()))
        .limit(MOST_PAIRS)
    )
    by_cell: dict[int, list[float]] = defaultdict(list)
    for cell, delta in session.execute(pairs):
        if delta is not None:
            by_cell[cell].append(delta)
    variances = list(_variances(by_cell))
    df = sum(freedom for _, freedom in variances)
    squares = math.fsum(variance * freedom for variance, freedom in variances)
    return (math.sqrt(squares / df) if squares else None), len(variances)


def _variances(by_cell: dict[int, list[float]]) -> Iterator[tuple[float, int]]:
    for deltas in by_cell.values():
        if len(deltas) > 1:
            yield variance(deltas), len(deltas) - 1

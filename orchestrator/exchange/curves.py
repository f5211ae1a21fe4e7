"""The jobs of a sweep with their curves, one at a time, for programs that take a run at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.following.overview import find_sweep
from headcount.orchestrator.store.models import Cell, Evaluation, Job, Progress, SweepJob
from headcount.trainer.errors import UserError

Points = tuple[tuple[int, float | None], ...]
"""Step and value; None where it was not finite."""


@dataclass(frozen=True)
class JobCurves:
    """One job as others call a run."""

    id: str
    name: str
    """Such as `routing_heads=4,kv_heads=2,seed=0`."""
    settings: dict[str, Any]
    """The axes by their dotted names, with `role` and `seed`."""
    state: str
    tail_mean: float | None
    created: datetime
    ended: datetime | None
    curves: dict[str, Points]
    """Under the names of the columns, such as `evaluation.loss` and `progress.learning_rate`."""


_CURVES: tuple[tuple[type[Evaluation | Progress], tuple[str, ...]], ...] = (
    (Evaluation, ("loss",)),
    (Progress, ("loss", "learning_rate", "gradient_norm", "tokens_per_second")),
)


def job_curves(session: Session, name: str) -> Iterator[JobCurves]:
    """The jobs of a sweep in the order of dispatch. Raises `UserError` for one that is unknown or empty."""
    sweep = find_sweep(session, name)
    found = session.execute(
        select(Cell, Job)
        .join(SweepJob, SweepJob.cell_id == Cell.id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep.id)
        .order_by(SweepJob.position, Job.id)
    ).all()
    if not found:
        raise UserError(f"the sweep {name!r} has no job")
    for cell, job in found:
        role = "control" if cell.is_control else "treatment"
        named = {axis.rpartition(".")[2]: value for axis, value in cell.settings.items()}
        named |= {"control": True} if cell.is_control else {}
        yield JobCurves(
            id=job.id,
            name=",".join(f"{key}={value}" for key, value in {**named, "seed": job.seed}.items()),
            settings={axis: cell.settings.get(axis) for axis in sweep.axes}
            | {"role": role, "seed": job.seed},
            state=job.state,
            tail_mean=job.tail_mean,
            created=job.created,
            ended=job.ended,
            curves={
                f"{table.__tablename__}.{column}": _points(session, table, column, job.id)
                for table, columns in _CURVES
                for column in columns
            },
        )


def _points(session: Session, table: type[Evaluation | Progress], column: str, job_id: str) -> Points:
    values = select(table.step, getattr(table, column)).where(table.job_id == job_id).order_by(table.step)
    return tuple((step, value) for step, value in session.execute(values))

"""The curves of one job: its validation loss and its training loss by step."""

import math
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_job
from headcount.orchestrator.store.models import Evaluation, Progress


@dataclass(frozen=True)
class EvaluationPoint:
    """Validation loss after `step` updates, nats a token; None where it was not finite."""

    step: int
    loss: float | None


@dataclass(frozen=True)
class ProgressPoint:
    """Training after `step` updates, as stored (thinned); None where a number was not finite."""

    step: int
    loss: float | None
    learning_rate: float | None
    gradient_norm: float | None
    tokens_per_second: float | None


def evaluations(session: Session, job_id: str) -> tuple[EvaluationPoint, ...]:
    """Every evaluation of a job in the order of its steps. Raises `NotFoundError`."""
    find_job(session, job_id)
    rows = session.execute(
        select(Evaluation.step, Evaluation.loss).where(Evaluation.job_id == job_id).order_by(Evaluation.step)
    )
    return tuple(EvaluationPoint(step, finite(loss)) for step, loss in rows)


def progress(
    session: Session, job_id: str, *, after_step: int = -1, limit: int = 1000
) -> tuple[ProgressPoint, ...]:
    """At most `limit` stored progress points of a job behind `after_step`. Raises `NotFoundError`."""
    find_job(session, job_id)
    rows = session.execute(
        select(
            Progress.step,
            Progress.loss,
            Progress.learning_rate,
            Progress.gradient_norm,
            Progress.tokens_per_second,
        )
        .where(Progress.job_id == job_id, Progress.step > after_step)
        .order_by(Progress.step)
        .limit(limit)
    )
    return tuple(ProgressPoint(step, *map(finite, numbers)) for step, *numbers in rows)


def finite(value: float | None) -> float | None:
    """The value, or None where it is not a finite number."""
    return value if value is not None and math.isfinite(value) else None

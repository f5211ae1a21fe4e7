"""What is stored of attempts that now tell more."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import shown_in
from headcount.orchestrator.store.models import Attempt, Evaluation, Job, Progress, SweepJob


@dataclass(frozen=True)
class Told:
    """An attempt and its job before the next records."""

    attempt_id: int
    number: int
    last_event: int
    ended: datetime | None
    job_id: str
    kind: str
    step: int
    steps: int
    tail: int | None
    last_progress: int
    """The last step of which progress is stored."""
    last_evaluation: int
    """The last step of which an evaluation is stored; -1 where none is."""
    is_waited_for: bool
    """Whether instruments wait for the job's model."""
    sweeps: list[int] = field(default_factory=list)
    """That show the job."""

    @property
    def is_new(self) -> bool:
        """Whether nothing that the job told is stored yet."""
        return self.number == 1 and self.last_event < 0


def told_before(session: Session, attempt_ids: Sequence[int]) -> dict[int, Told]:
    """What is stored, by the attempt."""
    known: dict[int, Told] = {}
    for *values, sweep_id in session.connection().execute(_TOLD, {"of_attempts": list(attempt_ids)}):
        told = known.setdefault(values[0], Told(*values))
        if sweep_id is not None:
            told.sweeps.append(sweep_id)
    return known


_ATTEMPT: Any = Attempt.__table__
_JOB: Any = Job.__table__
_SWEEP_JOB: Any = SweepJob.__table__
_PROGRESS: Any = Progress.__table__
_EVALUATION: Any = Evaluation.__table__
_CHILD: Any = _JOB.alias()
_LAST_PROGRESS = select(func.coalesce(func.max(_PROGRESS.c.step), 0)).where(_PROGRESS.c.job_id == _JOB.c.id)
_LAST_EVALUATION = select(func.coalesce(func.max(_EVALUATION.c.step), -1)).where(
    _EVALUATION.c.job_id == _JOB.c.id
)
_WAITING = select(_CHILD.c.id).where(_CHILD.c.parent_id == _JOB.c.id, _CHILD.c.state == "queued")
_TOLD = (
    select(
        *(_ATTEMPT.c.id, _ATTEMPT.c.number, _ATTEMPT.c.last_event, _ATTEMPT.c.ended),
        *(_JOB.c.id, _JOB.c.kind, _JOB.c.step, _JOB.c.config["train.steps"].as_integer(), _JOB.c.tail),
        _LAST_PROGRESS.scalar_subquery(),
        _LAST_EVALUATION.scalar_subquery(),
        _WAITING.exists(),
        _SWEEP_JOB.c.sweep_id,
    )
    .join(_JOB, _JOB.c.id == _ATTEMPT.c.job_id)
    .outerjoin(_SWEEP_JOB, shown_in(_JOB))
    .where(_ATTEMPT.c.id.in_(bindparam("of_attempts", expanding=True)))
    .order_by(_ATTEMPT.c.id, _SWEEP_JOB.c.sweep_id)
)

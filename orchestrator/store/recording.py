"""An attempt's events, written once each, in order, whoever asks for them and however often."""

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, cast

from sqlalchemy import Table, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import (
    announce_job,
    now,
    tell_sweeps_of,
    touch_sweeps_of,
    touch_sweeps_of_running,
)
from headcount.orchestrator.store.models import Artifact, Attempt, Evaluation, Job, Measurement, Progress
from headcount.orchestrator.store.tails import report
from headcount.orchestrator.store.transitions import attempt_folder, end_attempt

Record = dict[str, Any]
"""A trainer event as plain data, or the slot's last word: `{"kind": "ended", "cause": …, "message": …}`."""

PROGRESS_POINTS = 400
"""Kept of one job, about."""


def record_events(session: Session, attempt_id: int, first: int, records: Sequence[Record]) -> bool:
    """Store the records numbered from `first`; those stored before are passed over.

    Returns whether the attempt is still open. What a closed attempt says late is dropped. Rows are written
    past the session's objects, which costs half the time: one that it held before is stale afterwards.
    """
    session.flush()
    told = _Told(*session.connection().execute(_TOLD, {"of_attempt": attempt_id}).one())
    if told.ended is not None:
        return False
    fresh = records[max(0, told.last_event + 1 - first) :]
    assert not fresh or first <= told.last_event + 1, "a gap in an attempt's events"
    if not fresh:
        return True
    _store_curves(session, told, fresh)
    if all(record["kind"] in _CURVES for record in fresh):
        touch_sweeps_of_running(session, told.job_id)
        return True
    attempt = session.get_one(Attempt, attempt_id, populate_existing=True)
    job = session.get_one(Job, told.job_id, populate_existing=True)
    for record in fresh:
        match record["kind"]:
            case "checkpoint":
                _store_checkpoint(session, job, attempt, record)
            case "artifact":
                _store_file(session, job, attempt, record["purpose"], record, record["file"])
            case "spike":
                announce_job(session, job.id, "spiked", step=record["step"], steps=record["steps"])
            case "unsent":
                announce_job(session, job.id, "unsent", step=record["step"], message=record["message"])
            case "result":
                _settle(session, job, attempt, record)
            case "ended":
                end_attempt(session, attempt, record["cause"], record["message"])
    session.flush()
    if attempt.ended is None:
        touch_sweeps_of(session, [job.id])
    return attempt.ended is None


_CURVES = ("progress", "evaluation", "routing")
"""Kinds of records that a running job tells again and again, and no table shows before it has ended."""


class _Told(NamedTuple):
    """What is known of an attempt and its job before the next records."""

    attempt_id: int
    number: int
    last_event: int
    ended: datetime | None
    job_id: str
    step: int
    steps: int


_ATTEMPT: Any = Attempt.__table__
_JOB: Any = Job.__table__
_TOLD = (
    select(
        _ATTEMPT.c.id,
        _ATTEMPT.c.number,
        _ATTEMPT.c.last_event,
        _ATTEMPT.c.ended,
        _JOB.c.id,
        _JOB.c.step,
        _JOB.c.config["train.steps"].as_integer(),
    )
    .join(_JOB, _JOB.c.id == _ATTEMPT.c.job_id)
    .where(_ATTEMPT.c.id == bindparam("of_attempt"))
)
_HEARD = update(_ATTEMPT).where(_ATTEMPT.c.id == bindparam("of_attempt"))
_DONE = update(_JOB).where(_JOB.c.id == bindparam("of_job"))


def _store_curves(session: Session, told: _Told, records: Sequence[Record]) -> None:
    """Started, progress and evaluations. A step that is trained again replaces what was stored of it."""
    connection = session.connection()
    heard = {"last_event": told.last_event + len(records)}
    if records[0]["kind"] == "started":
        heard |= {"start_step": records[0]["step"], "environment": records[0]["environment"]}
        told = told._replace(step=records[0]["step"])
        if told.number > 1:
            for table in (Evaluation, Progress):
                session.execute(delete(table).where(table.job_id == told.job_id, table.step > told.step))
        announce_job(session, told.job_id, "started", attempt=told.number, step=told.step)
    connection.execute(_HEARD, {"of_attempt": told.attempt_id, **heard})
    evaluations = {r["step"]: r for r in records if r["kind"] == "evaluation"}
    held = _held_losses(session, told, list(evaluations))
    _replace(session, told, Evaluation, [_evaluation(told, r) for r in evaluations.values()], list(held))
    losses = [{"step": step, "loss": _finite(record["loss"])} for step, record in evaluations.items()]
    tell_sweeps_of(session, told.job_id, "evaluated", [t for t in losses if held.get(t["step"]) != t["loss"]])
    _store_routing(session, told, [r for r in records if r["kind"] == "routing"])
    progress = _thinned(session, told, [r for r in records if r["kind"] == "progress"])
    again = [r["step"] for r in progress if r["step"] <= told.step]
    _replace(session, told, Progress, [_progress(told, r) for r in progress], again)
    done = [r["step"] for r in records if r["kind"] in ("progress", "evaluation", "checkpoint", "result")]
    connection.execute(_DONE, {"of_job": told.job_id, "step": max([told.step, *done])})


def _held_losses(session: Session, told: _Told, steps: list[int]) -> dict[int, float | None]:
    """Those stored at some of these steps: none behind the last step that was told."""
    steps = [step for step in steps if step <= told.step]
    if not steps:
        return {}
    between = {"of_job": told.job_id, "first": min(steps), "last": max(steps)}
    near = session.connection().execute(_HELD, between)
    return {step: loss for step, loss in near if step in steps}


_EVALUATION: Any = Evaluation.__table__
_HELD = select(_EVALUATION.c.step, _EVALUATION.c.loss).where(
    _EVALUATION.c.job_id == bindparam("of_job"),
    _EVALUATION.c.step.between(bindparam("first"), bindparam("last")),
)


def _evaluation(told: _Told, record: Record) -> dict[str, Any]:
    losses = [_finite(loss) for loss in record["window_losses"]]
    return {
        "job_id": told.job_id,
        "step": record["step"],
        "attempt_id": told.attempt_id,
        "loss": _finite(record["loss"]),
        "window_losses": losses or None,
    }


def _progress(told: _Told, record: Record) -> dict[str, Any]:
    return {
        "job_id": told.job_id,
        "step": record["step"],
        "attempt_id": told.attempt_id,
        "loss": _finite(record["loss"]),
        "learning_rate": record["learning_rate"],
        "gradient_norm": _finite(record["gradient_norm"]),
        "tokens_per_second": record["tokens_per_second"],
    }


def _thinned(session: Session, told: _Told, records: list[Record]) -> list[Record]:
    """Those records that are far enough from the one stored before them."""
    if not records:
        return []
    last = session.connection().execute(_LAST_PROGRESS, {"of_job": told.job_id}).scalar() or 0
    kept = []
    for record in records:
        if record["step"] - last >= told.steps / PROGRESS_POINTS:
            kept.append(record)
            last = record["step"]
    return kept


def _store_routing(session: Session, told: _Told, records: list[Record]) -> None:
    """How each site mixes at the job's last step, as measurements by site from 0."""
    if not records or records[-1]["step"] < told.steps:
        return
    figures = ("entropy", "top_source")
    values = {
        f"routing_{name}.{site}": float(value)
        for name in figures
        for site, value in enumerate(records[-1][name])
    }
    of_job = Measurement.job_id == told.job_id
    session.execute(delete(Measurement).where(of_job, Measurement.name.in_(values)))
    rows = [{"job_id": told.job_id, "name": name, "value": _finite(value)} for name, value in values.items()]
    session.connection().execute(insert(cast(Table, Measurement.__table__)), rows)


_PROGRESS: Any = Progress.__table__
_LAST_PROGRESS = select(func.max(_PROGRESS.c.step)).where(_PROGRESS.c.job_id == bindparam("of_job"))


def _replace(
    session: Session,
    told: _Told,
    table: type[Evaluation | Progress],
    rows: list[Record],
    again: list[int],
) -> None:
    """Insert rows, after those are deleted that the store may hold at the steps `again`."""
    if again:
        session.execute(delete(table).where(table.job_id == told.job_id, table.step.in_(again)))
    if rows:
        session.connection().execute(insert(cast(Table, table.__table__)), rows)


def _store_checkpoint(session: Session, job: Job, attempt: Attempt, record: Record) -> None:
    """The newest checkpoint only: the trainer drops older ones."""
    _store_file(session, job, attempt, "checkpoint", record, f"checkpoints/{record['file']}")


def _store_file(session: Session, job: Job, attempt: Attempt, kind: str, record: Record, place: str) -> None:
    """The one file of its kind, at `place` in the attempt's folder."""
    session.execute(delete(Artifact).where(Artifact.job_id == job.id, Artifact.kind == kind))
    session.add(
        Artifact(
            key=f"{attempt_folder(job.id, attempt.number)}/{place}",
            job_id=job.id,
            attempt_id=attempt.id,
            kind=kind,
            step=record["step"],
            sha256=record["sha256"],
            created=now(),
        )
    )
    session.flush()


def _settle(session: Session, job: Job, attempt: Attempt, record: Record) -> None:
    """The job's result, from what is stored. Its tail mean is written here, or anew with another tail."""
    values = record["measurements"]
    if attempt.number > 1:
        stale = delete(Measurement).where(Measurement.job_id == job.id, Measurement.name.in_(values))
        session.execute(stale)
    rows = [{"job_id": job.id, "name": name, "value": _finite(value)} for name, value in values.items()]
    if rows:
        session.connection().execute(insert(cast(Table, Measurement.__table__)), rows)
    if job.kind != "train":
        touch_sweeps_of(session, [job.id])
    elif record["outcome"] == "finished":
        report(session, job)
    else:
        job.diverged_step = record["step"]
    end_attempt(session, attempt, record["outcome"])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

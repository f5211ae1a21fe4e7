"""An attempt's events, written once each, in order, whoever asks for them and however often."""

import math
from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import announce_job, now, tell_sweeps_of, touch_sweeps_of
from headcount.orchestrator.store.models import Artifact, Attempt, Evaluation, Job, Measurement, Progress
from headcount.orchestrator.store.tails import report
from headcount.orchestrator.store.transitions import end_attempt, job_folder

Record = dict[str, Any]
"""A trainer event as plain data, or the slot's last word: `{"kind": "ended", "cause": …, "message": …}`."""

PROGRESS_POINTS = 400
"""Kept of one job, about."""


def record_events(session: Session, attempt_id: int, first: int, records: Sequence[Record]) -> bool:
    """Store the records numbered from `first`; those stored before are passed over.

    Returns whether the attempt is still open. What a closed attempt says late is dropped.
    """
    attempt = session.get_one(Attempt, attempt_id)
    if attempt.ended is not None:
        return False
    fresh = records[max(0, attempt.last_event + 1 - first) :]
    assert not fresh or first <= attempt.last_event + 1, "a gap in an attempt's events"
    if not fresh:
        return True
    job = session.get_one(Job, attempt.job_id)
    attempt.last_event += len(fresh)
    _store_curves(session, job, attempt, fresh)
    for record in fresh:
        match record["kind"]:
            case "checkpoint":
                _store_checkpoint(session, job, attempt, record)
            case "artifact":
                _store_file(session, job, attempt, record["purpose"], record, record["file"])
            case "spike":
                announce_job(session, job.id, "spiked", step=record["step"], steps=record["steps"])
            case "result":
                _settle(session, job, attempt, record)
            case "ended":
                end_attempt(session, attempt, record["cause"], record["message"])
    session.flush()
    touch_sweeps_of(session, [job.id])
    return attempt.ended is None


def _store_curves(session: Session, job: Job, attempt: Attempt, records: Sequence[Record]) -> None:
    """Started, progress and evaluations. A step that is trained again replaces what was stored of it."""
    if records[0]["kind"] == "started":
        attempt.start_step, attempt.environment = records[0]["step"], records[0]["environment"]
        job.step = records[0]["step"]
        for table in (Evaluation, Progress):
            session.execute(delete(table).where(table.job_id == job.id, table.step > job.step))
        announce_job(session, job.id, "started", attempt=attempt.number, step=job.step)
    evaluations = {r["step"]: r for r in records if r["kind"] == "evaluation"}
    held = _held_losses(session, job, list(evaluations))
    _replace(
        session, job, Evaluation, [_evaluation(job, attempt, r) for r in evaluations.values()], list(held)
    )
    told = [{"step": step, "loss": _finite(record["loss"])} for step, record in evaluations.items()]
    tell_sweeps_of(session, job.id, "evaluated", [t for t in told if held.get(t["step"]) != t["loss"]])
    progress = _thinned(session, job, [r for r in records if r["kind"] == "progress"])
    again = [r["step"] for r in progress if r["step"] <= job.step]
    _replace(session, job, Progress, [_progress(job, attempt, r) for r in progress], again)
    done = [r["step"] for r in records if r["kind"] in ("progress", "evaluation", "checkpoint", "result")]
    job.step = max([job.step, *done])


def _held_losses(session: Session, job: Job, steps: list[int]) -> dict[int, float | None]:
    """Those stored at some of these steps: none behind the last step that was told."""
    steps = [step for step in steps if step <= job.step]
    if not steps:
        return {}
    query = select(Evaluation.step, Evaluation.loss).where(Evaluation.job_id == job.id)
    near = session.execute(query.where(Evaluation.step >= min(steps), Evaluation.step <= max(steps)))
    return {step: loss for step, loss in near if step in steps}


def _evaluation(job: Job, attempt: Attempt, record: Record) -> dict[str, Any]:
    losses = [_finite(loss) for loss in record["window_losses"]]
    return {
        "job_id": job.id,
        "step": record["step"],
        "attempt_id": attempt.id,
        "loss": _finite(record["loss"]),
        "window_losses": losses or None,
    }


def _progress(job: Job, attempt: Attempt, record: Record) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "step": record["step"],
        "attempt_id": attempt.id,
        "loss": _finite(record["loss"]),
        "learning_rate": record["learning_rate"],
        "gradient_norm": _finite(record["gradient_norm"]),
        "tokens_per_second": record["tokens_per_second"],
    }


def _thinned(session: Session, job: Job, records: list[Record]) -> list[Record]:
    """Those records that are far enough from the one stored before them."""
    if not records:
        return []
    last = session.scalar(select(func.max(Progress.step)).where(Progress.job_id == job.id)) or 0
    kept = []
    for record in records:
        if record["step"] - last >= job.config["train.steps"] / PROGRESS_POINTS:
            kept.append(record)
            last = record["step"]
    return kept


def _replace(
    session: Session,
    job: Job,
    table: type[Evaluation | Progress],
    rows: list[Record],
    again: list[int],
) -> None:
    """Insert rows, after those are deleted that the store may hold at the steps `again`."""
    if again:
        session.execute(delete(table).where(table.job_id == job.id, table.step.in_(again)))
    if rows:
        session.execute(insert(table), rows)


def _store_checkpoint(session: Session, job: Job, attempt: Attempt, record: Record) -> None:
    """The newest checkpoint only: the trainer drops older ones."""
    _store_file(session, job, attempt, "checkpoint", record, f"checkpoints/{record['file']}")


def _store_file(session: Session, job: Job, attempt: Attempt, kind: str, record: Record, place: str) -> None:
    """The one file of its kind, at `place` in the job's folder."""
    session.execute(delete(Artifact).where(Artifact.job_id == job.id, Artifact.kind == kind))
    session.add(
        Artifact(
            key=f"{job_folder(job.id)}/{place}",
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
    session.execute(delete(Measurement).where(Measurement.job_id == job.id, Measurement.name.in_(values)))
    session.execute(
        insert(Measurement),
        [{"job_id": job.id, "name": name, "value": _finite(value)} for name, value in values.items()],
    )
    if record["outcome"] == "finished":
        report(session, job)
    else:
        job.diverged_step = record["step"]
    end_attempt(session, attempt, record["outcome"])


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None

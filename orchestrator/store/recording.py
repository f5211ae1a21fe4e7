"""Attempts' events, written once each, in order, whoever asks for them and however often."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.changes import Changes, gathered
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Artifact, Attempt, Evaluation, Job, Measurement, Progress
from headcount.orchestrator.store.tails import tail_means
from headcount.orchestrator.store.told import Told, told_before
from headcount.orchestrator.store.transitions import attempt_folder, end_attempt, settle_instruments
from headcount.trainer.tail import tail_mean

Record = dict[str, Any]
"""A trainer event as plain data, or the slot's last word: `{"kind": "ended", "cause": …, "message": …}`."""

PROGRESS_POINTS = 400
"""Kept of one job, about."""


class Telling(NamedTuple):
    """What a slot told of an attempt."""

    attempt_id: int
    first: int
    """Number of the first record."""
    records: Sequence[Record]


def record_events(session: Session, attempt_id: int, first: int, records: Sequence[Record]) -> bool:
    """As `record_all`, of one attempt and at once; whether it is still open."""
    with gathered(session) as changes:
        [is_open] = record_all(changes, [Telling(attempt_id, first, records)])
    return is_open


def record_all(changes: Changes, tellings: Sequence[Telling]) -> list[bool]:
    """Store what attempts told, each record once: those that were stored before are passed over.

    Returns whether each attempt is still open. What a closed attempt says late is dropped.
    """
    session = changes.session
    known = told_before(session, [telling.attempt_id for telling in tellings])
    results: list[tuple[Told, Sequence[Record]]] = []
    endings: list[tuple[Told, Record]] = []
    closed: set[int] = set()
    for attempt_id, first, records in tellings:
        told = known[attempt_id]
        if told.ended is not None:
            closed.add(attempt_id)
            continue
        fresh = records[max(0, told.last_event + 1 - first) :]
        assert not fresh or first <= told.last_event + 1, "a gap in an attempt's events"
        if not fresh:
            continue
        _gather(changes, told, fresh)
        if _last(fresh, "result"):
            results.append((told, fresh))
        elif ended := _last(fresh, "ended"):
            endings.append((told, ended))
    _settle(changes, results)
    waited_for = [(told, fresh) for told, fresh in results if told.is_waited_for]
    if endings or waited_for:
        changes.write()
    for told, fresh in waited_for:
        settle_instruments(session, told.job_id, _last(fresh, "result")["outcome"])
    for told, ended in endings:
        end_attempt(session, session.get_one(Attempt, told.attempt_id), ended["cause"], ended["message"])
    closed |= {told.attempt_id for told, _ in (*results, *endings)}
    return [telling.attempt_id not in closed for telling in tellings]


_CURVES = ("progress", "evaluation", "routing")
"""Kinds of records that a running job tells again and again, and no table shows before it has ended."""

_ATTEMPT: Any = Attempt.__table__
_JOB: Any = Job.__table__
_EVALUATION: Any = Evaluation.__table__
_PROGRESS: Any = Progress.__table__
_MEASUREMENT: Any = Measurement.__table__
_ARTIFACT: Any = Artifact.__table__


def _gather(changes: Changes, told: Told, records: Sequence[Record]) -> None:
    """All but how the attempt ends. A step that is trained again replaces what was stored of it."""
    of_kind: dict[str, list[Record]] = {}
    for record in records:
        of_kind.setdefault(record["kind"], []).append(record)
    heard: dict[str, Any] = {"last_event": told.last_event + len(records)}
    step = told.step
    if records[0]["kind"] == "started":
        step = records[0]["step"]
        heard |= {"start_step": step, "environment": records[0]["environment"]}
        if told.number > 1:
            changes.delete(_EVALUATIONS_AFTER, {"of_job": told.job_id, "after": step})
            changes.delete(_PROGRESS_AFTER, {"of_job": told.job_id, "after": step})
        changes.tell(told.sweeps, told.job_id, "started", {"attempt": told.number, "step": step})
    changes.set(_ATTEMPT, told.attempt_id, **heard)
    _gather_evaluations(changes, told, step, of_kind.get("evaluation", []))
    _gather_routing(changes, told, of_kind.get("routing", []))
    _gather_progress(changes, told, step, of_kind.get("progress", []))
    for record in of_kind.get("checkpoint", [])[-1:]:  # the trainer drops older ones
        _gather_file(changes, told, "checkpoint", record, f"checkpoints/{record['file']}")
    for purpose, record in {r["purpose"]: r for r in of_kind.get("artifact", [])}.items():
        _gather_file(changes, told, purpose, record, record["file"])
    for record in of_kind.get("spike", []):
        detail = {"step": record["step"], "steps": record["steps"]}
        changes.tell(told.sweeps, told.job_id, "spiked", detail)
    for record in of_kind.get("unsent", []):
        detail = {"step": record["step"], "message": record["message"]}
        changes.tell(told.sweeps, told.job_id, "unsent", detail)
    done = [r["step"] for r in records if r["kind"] in ("progress", "evaluation", "checkpoint", "result")]
    changes.set(_JOB, told.job_id, step=max([step, *done]))
    if of_kind.keys() <= set(_CURVES):
        changes.touch_running(told.sweeps)
    else:
        changes.touch(told.sweeps)


def _gather_evaluations(changes: Changes, told: Told, done: int, records: list[Record]) -> None:
    """`done` is the last step behind which nothing is stored."""
    evaluations = {record["step"]: record for record in records}
    last = min(told.last_evaluation, done)
    held = _held_losses(changes.session, told, [step for step in evaluations if step <= last])
    for step, record in evaluations.items():
        loss = _finite(record["loss"])
        if step in held:
            changes.delete(_EVALUATION_AT, {"of_job": told.job_id, "at": step})
        if step not in held or held[step] != loss:
            changes.tell_of_running(told.sweeps, told.job_id, "evaluated", {"step": step, "loss": loss})
        changes.insert(_EVALUATION, _evaluation(told, record))


def _held_losses(session: Session, told: Told, steps: list[int]) -> dict[int, float | None]:
    """Those stored at some of these steps."""
    if not steps:
        return {}
    between = {"of_job": told.job_id, "first": min(steps), "last": max(steps)}
    near = session.connection().execute(_HELD, between)
    return {step: loss for step, loss in near if step in steps}


_HELD = select(_EVALUATION.c.step, _EVALUATION.c.loss).where(
    _EVALUATION.c.job_id == bindparam("of_job"),
    _EVALUATION.c.step.between(bindparam("first"), bindparam("last")),
)


def _gather_progress(changes: Changes, told: Told, done: int, records: list[Record]) -> None:
    """Those records that are far enough from the one stored before them."""
    last = min(told.last_progress, done)
    for record in records:
        step = record["step"]
        if step - last < told.steps / PROGRESS_POINTS:
            continue
        if step <= done:
            changes.delete(_PROGRESS_AT, {"of_job": told.job_id, "at": step})
        changes.insert(_PROGRESS, _progress(told, record))
        last = step


def _gather_routing(changes: Changes, told: Told, records: list[Record]) -> None:
    """How each site mixes at the job's last step, as measurements by site from 0."""
    if not records or records[-1]["step"] < told.steps:
        return
    for name in ("entropy", "top_source"):
        for site, value in enumerate(records[-1][name]):
            _gather_measurement(changes, told, f"routing_{name}.{site}", value)


def _gather_measurement(changes: Changes, told: Told, name: str, value: float) -> None:
    if not told.is_new:  # it may be there: told anew from a checkpoint on, or by an earlier attempt
        changes.delete(_MEASUREMENT_OF, {"of_job": told.job_id, "named": name})
    changes.insert(_MEASUREMENT, {"job_id": told.job_id, "name": name, "value": _finite(value)})


def _gather_file(changes: Changes, told: Told, kind: str, record: Record, place: str) -> None:
    """The one file of its kind, at `place` in the attempt's folder."""
    changes.delete(_FILE_OF, {"of_job": told.job_id, "of_kind": kind})
    row = {
        "key": f"{attempt_folder(told.job_id, told.number)}/{place}",
        "job_id": told.job_id,
        "attempt_id": told.attempt_id,
        "kind": kind,
        "step": record["step"],
        "sha256": record["sha256"],
        "created": now(),
    }
    changes.insert(_ARTIFACT, row)


def _settle(changes: Changes, results: Sequence[tuple[Told, Sequence[Record]]]) -> None:
    """The results among what jobs told. Their tail means are written here, or anew with another tail."""
    finished = []
    for told, records in results:
        result, ended = _last(records, "result"), now()
        outcome = result["outcome"]
        for name, value in result["measurements"].items():
            _gather_measurement(changes, told, name, value)
        changes.set(_ATTEMPT, told.attempt_id, ended=ended, cause=outcome)
        changes.set(_JOB, told.job_id, state=outcome, ended=ended)
        if told.kind == "train" and outcome == "finished":
            finished.append((told, records))
        elif told.kind == "train":
            changes.set(_JOB, told.job_id, diverged_step=result["step"])
        detail = {"state": outcome, "cause": outcome, "attempt": told.number}
        changes.tell(told.sweeps, told.job_id, "settled", detail)
    means = {told.job_id: _mean_of_all_told(told, records) for told, records in finished if told.is_new}
    if others := {told.job_id: (told.steps, told.tail) for told, _ in finished if not told.is_new}:
        changes.write()  # with what was stored before
        means |= tail_means(changes.session, others)
    for job_id, mean in means.items():
        changes.set(_JOB, job_id, tail_mean=mean)


def _mean_of_all_told(told: Told, records: Sequence[Record]) -> float | None:
    """The tail mean of a job that told all at once, as short ones do."""
    losses = {record["step"]: _finite(record["loss"]) for record in records if record["kind"] == "evaluation"}
    stored = [(step, loss) for step, loss in sorted(losses.items()) if loss is not None]
    return tail_mean(stored, told.steps, told.tail)


def _last(records: Sequence[Record], kind: str) -> Record:
    """The last of a kind; empty where there is none."""
    return next((record for record in reversed(records) if record["kind"] == kind), {})


def _evaluation(told: Told, record: Record) -> Record:
    losses = [_finite(loss) for loss in record["window_losses"]]
    return {
        "job_id": told.job_id,
        "step": record["step"],
        "attempt_id": told.attempt_id,
        "loss": _finite(record["loss"]),
        "window_losses": losses or None,
    }


def _progress(told: Told, record: Record) -> Record:
    return {
        "job_id": told.job_id,
        "step": record["step"],
        "attempt_id": told.attempt_id,
        "loss": _finite(record["loss"]),
        "learning_rate": float(record["learning_rate"]),
        "gradient_norm": _finite(record["gradient_norm"]),
        "tokens_per_second": float(record["tokens_per_second"]),
    }


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _of_job(table: Any, *conditions: Any) -> Any:
    return delete(table).where(table.c.job_id == bindparam("of_job"), *conditions)


_EVALUATIONS_AFTER = _of_job(_EVALUATION, _EVALUATION.c.step > bindparam("after"))
_EVALUATION_AT = _of_job(_EVALUATION, _EVALUATION.c.step == bindparam("at"))
_PROGRESS_AFTER = _of_job(_PROGRESS, _PROGRESS.c.step > bindparam("after"))
_PROGRESS_AT = _of_job(_PROGRESS, _PROGRESS.c.step == bindparam("at"))
_MEASUREMENT_OF = _of_job(_MEASUREMENT, _MEASUREMENT.c.name == bindparam("named"))
_FILE_OF = _of_job(_ARTIFACT, _ARTIFACT.c.kind == bindparam("of_kind"))

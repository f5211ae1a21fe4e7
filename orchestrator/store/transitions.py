"""How jobs move: queued → running → (cancelling) → finished | diverged | failed | cancelled.

Every function here is called inside a fenced write of the lease's holder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, insert, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.changes import Changes
from headcount.orchestrator.store.journal import announce_job, now, shown_in
from headcount.orchestrator.store.models import Artifact, Attempt, Job, Sweep, SweepJob
from headcount.orchestrator.store.wishes import cancel_children, is_wanted, withdraw
from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.execution import micro_batch_rule

INFRASTRUCTURE = ("slot_lost", "node_lost", "preempted", "host_memory", "timed_out")
"""Causes that say nothing about the job itself: it goes on from its last checkpoint."""

MOST_ENDS = 5
"""Infrastructure ends without a new checkpoint after which a job has failed."""


@dataclass(frozen=True)
class Work:
    """An attempt as a slot gets it."""

    attempt_id: int
    job_id: str
    number: int
    config: dict[str, Any]
    """The job's fields as they were stored, without the seed."""
    seed: int
    fingerprint: str
    log: str
    """Artifact key of the attempt's output."""
    micro_batch: int | None = None
    """Windows of one pass; by the trainer's rule where not given."""
    kind: str = "train"
    model: tuple[str, str] | None = None
    """Of an instrument: the artifact key of its parent's model, and the file's SHA-256."""


def job_folder(job_id: str) -> str:
    """The artifact key under which a job's files lie."""
    return f"jobs/{job_id[:2]}/{job_id}"


def attempt_folder(job_id: str, number: int) -> str:
    """The artifact key under which an attempt writes, and no other."""
    return f"{job_folder(job_id)}/attempt-{number}"


class Assignment(NamedTuple):
    """A job and the slot that is to run it."""

    job_id: str
    slot: str
    node: str
    share: float | None = None
    """Cards that the slot holds, or the part of one; none on a CPU."""


def dispatch(changes: Changes, epoch: int, assignments: Sequence[Assignment]) -> dict[str, Work]:
    """Open an attempt for each of some queued jobs; by the job, what its slot is to run.

    A job that is not queued any more is left out. Every job is assigned once, and once in a transaction.
    """
    session, begun = changes.session, now()
    queued, sweeps = _queued(session, [assignment.job_id for assignment in assignments])
    rows: list[dict[str, Any]] = []
    for job_id, slot, node, share in assignments:
        if job_id in queued:
            number = 1 + (queued[job_id].newest or 0)
            row: dict[str, Any] = {"job_id": job_id, "number": number, "epoch": epoch, "slot": slot}
            row |= {"node": node, "share": share, "started": begun, "last_event": -1}
            rows.append({**row, "log": f"{attempt_folder(job_id, number)}.log"})
    if not rows:
        return {}
    ids = {job_id: key for key, job_id in session.connection().execute(_OPEN, rows)}
    given = {}
    for row in rows:
        job_id, number = row["job_id"], row["number"]
        changes.set(_JOB, job_id, state="running", ended=None)
        changes.tell(sweeps[job_id], job_id, "dispatched", {"attempt": number, "slot": row["slot"]})
        given[job_id] = _work(session, queued[job_id], ids[job_id], number, row["log"])
    return given


def _queued(session: Session, job_ids: Sequence[str]) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Those of the jobs that are queued, and the sweeps that show each."""
    found: dict[str, Any] = {}
    sweeps: dict[str, list[int]] = {}
    for job in session.connection().execute(_QUEUED, {"of_jobs": list(job_ids)}):
        found[job.id] = job
        shown = sweeps.setdefault(job.id, [])
        if job.sweep_id is not None:
            shown.append(job.sweep_id)
    return found, sweeps


_JOB: Any = Job.__table__
_ATTEMPT: Any = Attempt.__table__
_SWEEP_JOB: Any = SweepJob.__table__
_NEWEST = select(func.max(_ATTEMPT.c.number)).where(_ATTEMPT.c.job_id == _JOB.c.id)
_QUEUED = (
    select(
        *(_JOB.c.id, _JOB.c.kind, _JOB.c.parent_id, _JOB.c.config, _JOB.c.seed, _JOB.c.fingerprint),
        *(_JOB.c.micro_batch, _NEWEST.scalar_subquery().label("newest"), _SWEEP_JOB.c.sweep_id),
    )
    .outerjoin(_SWEEP_JOB, shown_in(_JOB))
    .where(_JOB.c.id.in_(bindparam("of_jobs", expanding=True)), _JOB.c.state == "queued")
    .order_by(_JOB.c.id, _SWEEP_JOB.c.sweep_id)
)
_OPEN = insert(_ATTEMPT).returning(_ATTEMPT.c.id, _ATTEMPT.c.job_id)


def work_of(session: Session, attempt: Attempt) -> Work:
    """What the slot of an open attempt runs."""
    assert attempt.log is not None
    return _work(session, session.get_one(Job, attempt.job_id), attempt.id, attempt.number, attempt.log)


def _work(session: Session, job: Any, attempt_id: int, number: int, log: str) -> Work:
    config = {name: value for name, value in job.config.items() if name != "seed"}
    model = None
    if job.kind != "train":
        of_parent = select(Artifact.key, Artifact.sha256).where(
            Artifact.job_id == job.parent_id, Artifact.kind == "model"
        )
        found = session.execute(of_parent).one_or_none()
        model = (found.key, found.sha256) if found else None
    return Work(
        attempt_id,
        job.id,
        number,
        config,
        job.seed,
        job.fingerprint,
        log,
        job.micro_batch,
        kind=job.kind,
        model=model,
    )


def open_attempts(session: Session) -> list[Attempt]:
    """The attempts that have not ended, as far as the store knows."""
    running = select(Job.id).where(Job.state.in_(("running", "cancelling")))
    return list(
        session.scalars(
            select(Attempt).where(Attempt.job_id.in_(running), Attempt.ended.is_(None)).order_by(Attempt.id)
        )
    )


def end_attempt(session: Session, attempt: Attempt, cause: str, message: str | None = None) -> None:
    """Close an attempt with its cause and decide what becomes of its job. A closed attempt stays as it is."""
    if attempt.ended is not None:
        return
    job = session.get_one(Job, attempt.job_id)
    attempt.ended, attempt.cause, attempt.message = now(), cause, message
    job.state = _state_after(session, job, attempt, cause)
    if job.state != "queued":
        job.ended = attempt.ended
    session.flush()
    kind = "requeued" if job.state == "queued" else "settled"
    announce_job(session, job.id, kind, state=job.state, cause=cause, attempt=attempt.number)
    if job.kind == "train" and job.state != "queued":
        settle_instruments(session, job.id, job.state)
    if job.state == "failed":
        _stop_sweeps(session, job.id)


def settle_instruments(session: Session, job_id: str, state: str) -> None:
    """Those that wait for the model of a job that has ended may begin now, or never."""
    if state != "finished":
        cancel_children(session, [job_id])
        return
    waiting = select(Job.id).where(Job.parent_id == job_id, Job.state == "queued").order_by(Job.id)
    for child in session.scalars(waiting).all():
        announce_job(session, child, "ready")


def _state_after(session: Session, job: Job, attempt: Attempt, cause: str) -> str:
    if cause in ("finished", "diverged"):
        return cause
    if cause == "cancelled" or (job.state == "cancelling" and cause in INFRASTRUCTURE):
        return "queued" if session.scalar(select(is_wanted()).where(Job.id == job.id)) else "cancelled"
    if cause == "gpu_memory" and job.micro_batch is None:
        return _with_less_memory(job, attempt)
    if cause not in INFRASTRUCTURE:
        return "failed"
    ends = _ends_without_checkpoint(session, job)
    if ends < MOST_ENDS:
        return "queued"
    given_up = f"given up after {ends} ends without a new checkpoint"
    attempt.message = f"{attempt.message}\n{given_up}" if attempt.message else given_up
    return "failed"


def _with_less_memory(job: Job, attempt: Attempt) -> str:
    """Once, a job that ran out of a card's memory is tried alone on one, with half as many windows a pass."""
    shared = attempt.share is not None and attempt.share < 1
    if job.kind != "train":
        job.micro_batch = 1 if shared else None  # it has none; any value asks for a card of its own
        return "queued" if shared else "failed"
    before = (attempt.environment or {}).get("micro_batch") or micro_batch_rule(_config(job))
    if before == 1 and not shared:
        return "failed"
    job.micro_batch = max(1, before // 2)
    again = f"tried once more, alone on a card and with {job.micro_batch} instead of {before} windows a pass"
    attempt.message = f"{attempt.message}\n{again}" if attempt.message else again
    return "queued"


def _config(job: Job) -> JobConfig:
    return job_from_fields({name: value for name, value in job.config.items() if name != "seed"}, job.seed)


def _ends_without_checkpoint(session: Session, job: Job) -> int:
    newest = (
        select(func.max(Attempt.number))
        .join(Artifact, Artifact.attempt_id == Attempt.id)
        .where(Artifact.job_id == job.id, Artifact.kind == "checkpoint")
    )
    counted_from = max(job.forgiven_attempts, session.scalar(newest) or 0)
    ends = (
        select(func.count())
        .select_from(Attempt)
        .where(Attempt.job_id == job.id, Attempt.number > counted_from, Attempt.cause.in_(INFRASTRUCTURE))
    )
    return session.scalar(ends) or 0


def _stop_sweeps(session: Session, job_id: str) -> None:
    """A failed job withdraws all other wishes of its sweeps with `on_failure: stop`."""
    stopping = (
        select(Sweep.id)
        .join(SweepJob, SweepJob.sweep_id == Sweep.id)
        .where(SweepJob.job_id == job_id, SweepJob.wanted, Sweep.on_failure == "stop")
    )
    for sweep_id in session.scalars(stopping).all():
        withdraw(session, sweep_id)

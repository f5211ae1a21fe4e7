"""`headcount why`: what a job waits for, or how each attempt at it ended and what that means."""

from collections.abc import Iterator

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.orchestrator.following.live import cell_words
from headcount.orchestrator.following.overview import attempts_of, find_job, short_node
from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.limits import held_back
from headcount.orchestrator.store.models import Attempt, Cell, Job, Notice, Sweep, SweepJob
from headcount.orchestrator.store.queue import next_jobs
from headcount.sweeps.rendering import counted, duration

CAUSES = {
    "finished": "it trained to its end",
    "diverged": "its loss left every bound: a result, which no retry changes",
    "user_error": "the job itself cannot be trained as it is; mend what is said before it is tried again",
    "gpu_memory": "the card's memory was not enough",
    "host_memory": "the machine's memory was not enough, which may be another program's doing",
    "slot_lost": "its slot died, and the node lived on",
    "node_lost": "its node died or could not be reached",
    "preempted": "it was asked to make room, and wrote a checkpoint",
    "cancelled": "no sweep wanted it any more",
    "timed_out": "it did not answer in time",
    "data_differs": "its data is not, or not as it was registered, on the node",
}
"""What each cause says of the job."""

MOST_LINES = 12
"""Of an attempt's message, its last ones; `headcount logs` shows them all."""

LOOK_AHEAD = 100_000


def explain(store: Store, prefix: str) -> list[str]:
    """The lines that explain a job. Raises `UserError` where `prefix` names none."""
    holder = current_holder(store)
    with store.read() as session:
        job = find_job(session, prefix)
        attempts = attempts_of(session, job)
        sweep = _a_sweep_of(session, job)
        return [
            f"job {job.id[:12]}: {_state(job)}",
            *(f"  {line}" for line in _wishes(session, job)),
            *(_waiting(session, job, holder, sweep) if job.state == "queued" else ()),
            *(_running(job, attempts[-1]) if job.state in ("running", "cancelling") and attempts else ()),
            *(line for attempt in attempts if attempt.ended for line in _ended(attempt)),
            *_next(job, attempts, sweep),
        ]


def _a_sweep_of(session: Session, job: Job) -> str:
    """The sweep that a hint names: the first that wants the job, or else has it."""
    of_job = select(Sweep.name).join(SweepJob, SweepJob.sweep_id == Sweep.id)
    of_job = of_job.where(SweepJob.job_id == job.id)
    return session.scalar(of_job.order_by(SweepJob.wanted.desc(), Sweep.id).limit(1)) or "SWEEP"


def _state(job: Job) -> str:
    steps = job.config["train.steps"]
    match job.state:
        case "finished":
            return f"finished, tail mean {job.tail_mean:.4f}"
        case "diverged":
            return f"diverged at step {job.diverged_step} of {steps}"
        case _ if job.step:
            return f"{job.state} at step {job.step} of {steps}"
        case state:
            return state


def _wishes(session: Session, job: Job) -> Iterator[str]:
    rows = session.execute(
        select(Sweep.name, SweepJob, Cell)
        .join(Sweep, Sweep.id == SweepJob.sweep_id)
        .join(Cell, Cell.id == SweepJob.cell_id)
        .where(SweepJob.job_id == job.id)
        .order_by(Sweep.id)
    ).all()
    for name, wish, cell in rows:
        words = "wants it" if wish.wanted else "does not want it now"
        if wish.wanted and wish.paused:
            words += f", and is paused: headcount resume {name}"
        control = " (control)" if cell.is_control else ""
        yield f"sweep {name} {words}: {cell_words(cell.settings)}{control} seed={job.seed}"
    if not rows:
        yield "no sweep wants it"


def _waiting(session: Session, job: Job, holder: str | None, sweep: str) -> Iterator[str]:
    """What a queued job waits for, all of it."""
    order = next_jobs(session, LOOK_AHEAD)
    if job.id in order:
        ahead = order.index(job.id)
        before = "it is the next" if not ahead else f"{counted(ahead, 'job')} before it"
        running = session.scalar(select(func.count()).where(Job.state.in_(("running", "cancelling")))) or 0
        yield f"It waits for a free slot: {before}, {counted(running, 'job')} at work"
    else:
        yield from _barred(session, job)
    for notice in session.scalars(select(Notice).order_by(Notice.subject)):
        yield f"{notice.subject}: {notice.words}"
    if holder is None:
        yield f"No scheduler is at work: headcount run {sweep}, or headcount scheduler"


def _barred(session: Session, job: Job) -> Iterator[str]:
    """Why a queued job is not among those that may begin."""
    sweeps = session.scalars(
        select(Sweep)
        .join(SweepJob, SweepJob.sweep_id == Sweep.id)
        .where(SweepJob.job_id == job.id, SweepJob.wanted, ~SweepJob.paused)
    ).all()
    if not sweeps:
        yield "No sweep lets it begin: it is paused wherever it is wanted"
    for sweep in sweeps:
        if reason := held_back(session, sweep):
            yield f"{sweep.name} begins no more: {reason}"
        elif sweep.gpu_hours is not None or sweep.stop_at is not None:
            yield f"{sweep.name} has a budget or an end, which does not hold this job now"
        elif sweep.max_parallel is not None:
            most = counted(sweep.max_parallel, "job")
            yield f"{sweep.name} runs {most} at a time, as its max_parallel says"


def _running(job: Job, attempt: Attempt) -> Iterator[str]:
    since = duration(max(0.0, (now() - attempt.started).total_seconds()))
    yield f"Attempt {attempt.number} runs on {attempt.slot} at {short_node(attempt.node)} since {since}"
    if job.state == "cancelling":
        yield "It was asked to stop: no sweep wants it any more"


def _ended(attempt: Attempt) -> Iterator[str]:
    assert attempt.ended is not None
    assert attempt.cause is not None
    took = duration(max(0.0, (attempt.ended - attempt.started).total_seconds()))
    begun = f" from step {attempt.start_step}" if attempt.start_step else ""
    where = short_node(attempt.node)
    yield f"Attempt {attempt.number} on {where}{begun}, {took}: {attempt.cause}: {CAUSES[attempt.cause]}"
    lines = (attempt.message or "").strip().splitlines()
    if len(lines) > MOST_LINES:
        yield "    …"
    yield from (f"    {line}" for line in lines[-MOST_LINES:])


def _next(job: Job, attempts: list[Attempt], sweep: str) -> Iterator[str]:
    if job.state == "failed":
        yield f"It is not tried again by itself: headcount retry {sweep}"
        yield f"What it printed: headcount logs {job.id[:12]}"
    elif job.state == "cancelled":
        yield f"A sweep that wants it queues it again: headcount run {sweep}"
    elif job.state == "queued" and attempts:
        yield "It goes on from its last checkpoint"

"""What the commands show of sweeps and jobs: plain values, read from the store."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from headcount.orchestrator.following.instruments import Instruments, instruments_of
from headcount.orchestrator.store.models import (
    SETTLED_STATES,
    Attempt,
    Cell,
    Job,
    Progress,
    Sweep,
    SweepJob,
    Trial,
)
from headcount.trainer.errors import UserError, nearest


@dataclass(frozen=True)
class RunningJob:
    """A job on a slot, as last heard."""

    id: str
    settings: Mapping[str, Any]
    seed: int
    step: int
    steps: int
    loss: float | None
    tokens_per_second: float | None


@dataclass(frozen=True)
class SweepState:
    """How far a sweep is."""

    name: str
    states: Mapping[str, int]
    """Jobs by state; states without a job are left out."""
    waiting: int
    """Jobs without an outcome that the sweep wants, or that are being cancelled."""
    running: tuple[RunningJob, ...]
    paused: bool
    """Whether jobs wait that start only when the sweep is resumed."""
    growing: bool = False
    """Whether the scheduler will still add cells or seeds, or will after a pause."""
    instruments: Instruments = field(default_factory=Instruments)
    """Beside the jobs, and not counted among them; those that wait are among `waiting`."""

    @property
    def jobs(self) -> int:
        return sum(self.states.values())

    @property
    def words(self) -> str:
        """Such as `12 finished, 2 running, 6 queued (paused)`."""
        return self._told("")

    @property
    def progress(self) -> str:
        """Such as `12 finished, 2 running, 6 queued of 20 (paused)`."""
        return self._told(f" of {self.jobs}")

    def _told(self, of_all: str) -> str:
        order = ("finished", "diverged", "failed", "cancelled", "running", "cancelling", "queued")
        counts = ", ".join(f"{self.states[state]} {state}" for state in order if state in self.states)
        more = ", more to come" if self.growing else ""
        paused = " (paused)" if self.paused else ""
        instruments = f"; {self.instruments.words}" if self.instruments.words else ""
        return f"{counts or '0 queued'}{of_all}{more}{paused}{instruments}"


@dataclass(frozen=True)
class JobLine:
    """A job of a sweep, with how its last attempt ended."""

    id: str
    settings: Mapping[str, Any]
    is_control: bool
    seed: int
    state: str
    step: int
    steps: int
    tail_mean: float | None
    attempts: int
    cause: str | None
    message: str | None
    pruned: bool = False
    """Whether a search gave its cell up: nothing is wrong with the job."""


def find_sweep(session: Session, name: str) -> Sweep:
    """The sweep of that name. Raises `UserError` with the nearest."""
    sweep = session.scalar(select(Sweep).where(Sweep.name == name))
    if sweep is None:
        names = session.scalars(select(Sweep.name)).all()
        hint = nearest(name, names) if names else "there is none yet; 'headcount run FILE' makes one"
        raise UserError(f"no sweep {name!r}; {hint}")
    return sweep


def short_node(node: str) -> str:
    """HOST/ID with the beginning of Ray's id, which is 56 digits long."""
    host, slash, number = node.partition("/")
    return f"{host}{slash}{number[:8]}"


def find_job(session: Session, prefix: str) -> Job:
    """The job whose id begins with `prefix`. Raises `UserError` where there is none, or more than one."""
    pattern = prefix.lower().replace("\\", "").replace("%", "").replace("_", "")
    found = session.scalars(select(Job).where(Job.id.startswith(pattern)).order_by(Job.id).limit(3)).all()
    if not found or not pattern:
        raise UserError(f"no job {prefix!r}; 'headcount jobs SWEEP' lists their ids")
    if len(found) > 1:
        ids = ", ".join(job.id[: len(pattern) + 4] for job in found[:2])
        raise UserError(f"{prefix!r} is the beginning of several jobs, such as {ids}; give more digits")
    return found[0]


def sweep_state(session: Session, sweep: Sweep) -> SweepState:
    """One sweep, with its running jobs."""
    of_sweep = select(Job.state, func.count()).join(SweepJob, SweepJob.job_id == Job.id)
    of_sweep = of_sweep.where(SweepJob.sweep_id == sweep.id).group_by(Job.state)
    states: dict[str, int] = dict(session.execute(of_sweep).all())
    waiting = (
        select(func.count())
        .select_from(SweepJob)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep.id, Job.state.not_in(SETTLED_STATES))
        .where(SweepJob.wanted | (Job.state == "cancelling"))
    )
    paused = (
        select(SweepJob.job_id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep.id, SweepJob.wanted, SweepJob.paused, Job.state == "queued")
    )
    instruments = instruments_of(session, sweep.id)
    return SweepState(
        name=sweep.name,
        states=states,
        waiting=(session.scalar(waiting) or 0) + instruments.waiting,
        running=tuple(_running(session, sweep) if states else ()),
        paused=session.scalar(paused.limit(1)) is not None or sweep.growth == "held" or instruments.paused,
        growing=sweep.growth in ("growing", "held"),
        instruments=instruments,
    )


def _running(session: Session, sweep: Sweep) -> list[RunningJob]:
    query = (
        select(Job, Cell.settings)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .join(Cell, Cell.id == SweepJob.cell_id)
        .where(SweepJob.sweep_id == sweep.id, Job.state.in_(("running", "cancelling")))
        .order_by(SweepJob.position)
    )
    jobs = []
    for job, settings in session.execute(query):
        newest = select(Progress).where(Progress.job_id == job.id).order_by(Progress.step.desc()).limit(1)
        heard = session.scalar(newest)
        jobs.append(
            RunningJob(
                id=job.id,
                settings=settings,
                seed=job.seed,
                step=job.step,
                steps=job.config["train.steps"],
                loss=heard.loss if heard else None,
                tokens_per_second=heard.tokens_per_second if heard else None,
            )
        )
    return jobs


def job_lines(session: Session, sweep: Sweep) -> list[JobLine]:
    """Every job of a sweep, in the order of dispatch."""
    numbers = (
        select(Attempt.job_id, func.max(Attempt.number).label("number"))
        .group_by(Attempt.job_id)
        .subquery("numbers")
    )
    pruned = exists().where(Trial.cell_id == Cell.id, Trial.state == "pruned")
    query = (
        select(Job, Cell, Attempt, pruned)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .join(Cell, Cell.id == SweepJob.cell_id)
        .outerjoin(numbers, numbers.c.job_id == Job.id)
        .outerjoin(Attempt, (Attempt.job_id == Job.id) & (Attempt.number == numbers.c.number))
        .where(SweepJob.sweep_id == sweep.id)
        .order_by(SweepJob.position)
    )
    return [
        JobLine(
            id=job.id,
            settings=cell.settings,
            is_control=cell.is_control,
            seed=job.seed,
            state=job.state,
            step=job.step,
            steps=job.config["train.steps"],
            tail_mean=job.tail_mean,
            attempts=attempt.number if attempt else 0,
            cause=attempt.cause if attempt else None,
            message=attempt.message if attempt else None,
            pruned=is_pruned and job.state == "cancelled",
        )
        for job, cell, attempt, is_pruned in session.execute(query)
    ]


def attempts_of(session: Session, job: Job) -> list[Attempt]:
    """A job's attempts, the first one first."""
    query = select(Attempt).where(Attempt.job_id == job.id).order_by(Attempt.number)
    return list(session.scalars(query))

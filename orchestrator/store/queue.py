"""The queue, read once and kept up with by the store's events: a turn costs no more with more jobs."""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import ColumnElement, bindparam, exists, func, literal, select
from sqlalchemy.orm import Session, aliased

from headcount.orchestrator.scheduling.turns import Lane, Need, Turn, Waiting, arrange
from headcount.orchestrator.store.instrument_models import SweepInstrument
from headcount.orchestrator.store.limits import allowances, flops_left
from headcount.orchestrator.store.memory import memory_kind
from headcount.orchestrator.store.models import Artifact, Attempt, Event, Job, Sweep, SweepJob

ALONE = 1.0
"""The share of a job that ran out of a card's memory before."""


class Queue:
    """The queued jobs that some sweep wants now. Safe to be old: `dispatch` looks at the job itself."""

    def __init__(self, by_memory: bool = False) -> None:
        """`by_memory` tells jobs of different memory apart, for cards that several may share."""
        self._by_memory = by_memory
        self._lanes: dict[tuple[Any, ...], Lane] = {}
        self._lane_of: dict[tuple[int, str], tuple[Any, ...]] = {}
        """By sweep and job."""
        self._waiting: set[str] = set()
        self._wanted_by: dict[str, list[int]] = {}
        self._kinds: dict[str, str] = {}
        self._read_to: int | None = None
        self._bounded: tuple[bool, bool] = True, True
        """Whether any sweep has a `max_parallel`, and whether any has a budget or an end."""

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._waiting

    def forget(self) -> None:
        """Read everything anew the next time."""
        self._read_to = None

    def read(self, session: Session) -> bool:
        """Keep up: changed wishes are read anew as a whole, jobs that came back one by one.

        Returns whether wishes changed.
        """
        if self._read_to is None:
            self._read_to = session.connection().scalar(_NEWEST) or 0
            self._read_all(session)
            return True
        news = session.connection().execute(_NEWS, {"after": self._read_to}).all()
        self._read_to = max((event.id for event in news), default=self._read_to)
        told = {event.job_id for event in news if event.job_id is None or event.kind in _MAKES_WAIT}
        if None in told:
            self._read_all(session)
        elif told:
            self._add(session, told)
        return None in told

    def took(self, job_id: str) -> None:
        """A job is queued no more."""
        self._waiting.discard(job_id)

    def turns(self, session: Session) -> Iterator[Turn]:
        """The queued jobs in the order of their turns, as far as their sweeps may begin them."""
        lanes = [lane for lane in self._lanes.values() if lane.skip_gone(self._waiting)]
        parallel, limited = self._bounded
        return arrange(
            lanes,
            self._waiting,
            load=_loads(session) if len({lane.owner for lane in lanes}) > 1 else {},
            rooms=_rooms(session) if parallel else {},
            allowed=allowances(session) if limited else {},
            wanted_by=self._wanted_by,
        )

    def _read_all(self, session: Session) -> None:
        self._lanes.clear()
        self._lane_of.clear()
        self._waiting.clear()
        self._wanted_by.clear()
        self._add(session, None)

    def _add(self, session: Session, job_ids: Iterable[str] | None) -> None:
        """Put jobs into their lanes: those named, or all that wait."""
        sweeps = {sweep.id: sweep for sweep in session.scalars(select(Sweep))}
        limited = any(s.gpu_hours is not None or s.stop_at is not None for s in sweeps.values())
        self._bounded = any(s.max_parallel is not None for s in sweeps.values()), limited
        query: Any = (
            select(
                *(SweepJob.sweep_id, SweepJob.priority, SweepJob.position, Job.id, Job.micro_batch),
                _ran_out_of_memory(),
                flops_left() if limited else literal(0.0),
                Job.kind,
            )
            .where(Job.state == "queued", ~SweepJob.paused)
            .order_by(SweepJob.position)
        )
        if job_ids is not None:
            query = query.where(Job.id.in_(job_ids))
        trained = query.join(Job, Job.id == SweepJob.job_id).where(Job.kind == "train", SweepJob.wanted)
        found = [*session.execute(trained), *session.execute(_instruments(query))]
        self._learn_kinds(session, {row[3] for row in found if sweeps[row[0]].gpu_share is None})
        wanted: dict[str, list[int]] = defaultdict(list)
        for sweep_id, priority, position, job_id, micro_batch, alone, flops, kind in found:
            sweep = sweeps[sweep_id]
            need = Need(
                sweep.gpus_per_job if kind == "train" else 1,
                ALONE
                if micro_batch is not None or sweep.gpus_per_job > 1 or not self._by_memory
                else sweep.gpu_share,
                sweep.accelerator if self._by_memory else None,
                self._kinds.get(job_id, ""),
                alone,
            )
            key = sweep_id, priority, need
            job = Waiting(position, job_id, flops)
            if (before := self._lane_of.get((sweep_id, job_id), key)) != key:
                self._lanes[before].drop(job)
            self._lane_of[sweep_id, job_id] = key
            self._lanes.setdefault(key, Lane(sweep_id, sweep.owner, priority, need)).add(job)
            wanted[job_id].append(sweep_id)
        self._waiting |= wanted.keys()
        self._wanted_by.update({job_id: ids for job_id, ids in wanted.items() if len(ids) > 1})

    def _learn_kinds(self, session: Session, job_ids: set[str]) -> None:
        if not self._by_memory or job_ids <= self._kinds.keys():
            return
        queued = select(Job.id, Job.config).where(Job.state == "queued")
        for job_id, config in session.execute(queued):
            self._kinds[job_id] = memory_kind(config)


def _instruments(query: Any) -> Any:
    """Instruments whose parent has left a model, at their parent's place in the sweep."""
    parent = aliased(Job)
    has_model = exists().where(Artifact.job_id == parent.id, Artifact.kind == "model")
    return (
        query.join(parent, parent.id == SweepJob.job_id)
        .join(Job, Job.parent_id == parent.id)
        .join(
            SweepInstrument,
            (SweepInstrument.job_id == Job.id) & (SweepInstrument.sweep_id == SweepJob.sweep_id),
        )
        .where(parent.state == "finished", SweepInstrument.wanted, has_model)
    )


def _ran_out_of_memory() -> ColumnElement[bool]:
    """Whether a job's node ran out of memory before, since it was wished for last."""
    return exists().where(
        Attempt.job_id == Job.id, Attempt.number > Job.forgiven_attempts, Attempt.cause == "host_memory"
    )


_EVENT: Any = Event.__table__
_NEWEST = select(func.max(_EVENT.c.id))
_NEWS = select(_EVENT.c.id, _EVENT.c.job_id, _EVENT.c.kind).where(_EVENT.c.id > bindparam("after"))
_MAKES_WAIT = ("requeued", "ready")


def next_jobs(session: Session, limit: int) -> list[str]:
    """The jobs to dispatch next, were there slots for any."""
    queue = Queue()
    queue.read(session)
    return [turn.job_id for turn in itertools.islice(queue.turns(session), limit)]


def _loads(session: Session) -> dict[str, float]:
    """What each owner has at work, in slots."""
    loads: dict[str, float] = defaultdict(float)
    for wish in (SweepJob, SweepInstrument):
        query = (
            select(Sweep.owner, func.sum(func.coalesce(Attempt.share, 1.0)))
            .select_from(Job)
            .join(wish, wish.job_id == Job.id)
            .join(Sweep, Sweep.id == wish.sweep_id)
            .join(Attempt, (Attempt.job_id == Job.id) & Attempt.ended.is_(None))
            .where(Job.state.in_(("running", "cancelling")), wish.wanted)
            .group_by(Sweep.owner)
        )
        for owner, load in session.execute(query):
            loads[owner] += load
    return loads


def _rooms(session: Session) -> dict[int, int]:
    """For every sweep with a `max_parallel`, how many more of its jobs may run."""
    limits = session.execute(select(Sweep.id, Sweep.max_parallel).where(Sweep.max_parallel.is_not(None)))
    rooms = {}
    for sweep_id, limit in limits:
        running = 0
        for wish in (SweepJob, SweepInstrument):
            of_sweep = (
                select(func.count())
                .select_from(wish)
                .join(Job, Job.id == wish.job_id)
                .where(wish.sweep_id == sweep_id, wish.wanted)
                .where(Job.state.in_(("running", "cancelling")))
            )
            running += session.scalar(of_sweep) or 0
        rooms[sweep_id] = (limit or 0) - running
    return rooms

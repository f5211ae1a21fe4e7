"""Whose turn it is: an order over waiting jobs, as plain data.

Higher priority first; among equals the owner with the least at work, then the sweep that was submitted first,
then the order within the sweep. Waiting long costs a job nothing and gains it nothing: there is no back-off.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from headcount.sweeps.forecasting.allowance import Allowance


@dataclass(frozen=True)
class Need:
    """What a job is given to run on."""

    gpus: int = 1
    share: float | None = 1.0
    """Of a card; none where the memory that jobs of this `kind` took decides."""
    accelerator: str | None = None
    """The kind of card; none for any."""
    kind: str = ""
    """Jobs of one kind take the same memory."""
    alone: bool = False
    """Its node ran out of memory before: on a card of its own, or on all processors of a node."""


@dataclass(frozen=True, order=True)
class Waiting:
    """A queued job in the lane of a sweep that wants it."""

    position: int
    job_id: str
    flops: float = field(default=0.0, compare=False)
    """Operations left; known where its sweep has a budget or an end."""


@dataclass
class Lane:
    """The queued jobs of one sweep that have the same priority and need, in the order of the sweep."""

    sweep_id: int
    owner: str
    priority: int
    need: Need
    jobs: list[Waiting] = field(default_factory=list)
    """Sorted; also those that have left the queue, until they come back."""
    first: int = 0
    """Before it, all have left."""

    def add(self, job: Waiting) -> None:
        """Put a job in its place, where it may lie already."""
        place = bisect_left(self.jobs, job)
        if place == len(self.jobs) or self.jobs[place] != job:
            insort(self.jobs, job)
        self.first = min(self.first, place)

    def drop(self, job: Waiting) -> None:
        """Take a job out, which waits in another lane now."""
        place = bisect_left(self.jobs, job)
        if place < len(self.jobs) and self.jobs[place] == job:
            del self.jobs[place]
            self.first -= place < self.first

    def skip_gone(self, waiting: Container[str]) -> bool:
        """Forget those at the front that have left the queue; whether any is left."""
        while self.first < len(self.jobs) and self.jobs[self.first].job_id not in waiting:
            self.first += 1
        return self.first < len(self.jobs)


@dataclass(frozen=True)
class Turn:
    """A job that may be dispatched, and in whose name."""

    job_id: str
    sweep_id: int
    owner: str
    priority: int
    need: Need


def arrange(
    lanes: Sequence[Lane],
    waiting: Container[str],
    *,
    load: MutableMapping[str, float],
    rooms: MutableMapping[int, int],
    allowed: MutableMapping[int, Allowance],
    wanted_by: Mapping[str, Sequence[int]],
) -> Iterator[Turn]:
    """The jobs of `waiting` in the order of their turns, each once.

    `load` is what each owner has at work, in slots; `rooms` how many more jobs of a sweep may run, where that
    is bounded; `allowed` what a sweep may still begin by its budget or end. All three are brought forward as
    if what was yielded had been dispatched. `wanted_by` names the sweeps that want a job of several.

    Takes time by the number of lanes for a job, and not by the jobs that wait.
    """
    given: set[str] = set()
    for lane in lanes:
        lane.skip_gone(waiting)
    open_lanes = {index: lane.first for index, lane in enumerate(lanes)}
    while open_lanes:
        best = min(
            open_lanes,
            key=lambda i: (
                -lanes[i].priority,
                load.get(lanes[i].owner, 0.0),
                lanes[i].sweep_id,
                _position(lanes[i], open_lanes[i]),
            ),
        )
        lane, place = lanes[best], open_lanes[best]
        if place >= len(lane.jobs) or rooms.get(lane.sweep_id, 1) <= 0:
            del open_lanes[best]
            continue
        open_lanes[best] = place + 1
        job = lane.jobs[place]
        limit = allowed.get(lane.sweep_id)
        if job.job_id not in waiting or job.job_id in given or (limit and not limit.admits(job.flops)):
            continue
        given.add(job.job_id)
        load[lane.owner] = load.get(lane.owner, 0.0) + (lane.need.share or 1.0) * lane.need.gpus
        for sweep_id in wanted_by.get(job.job_id, (lane.sweep_id,)):
            if sweep_id in rooms:
                rooms[sweep_id] -= 1
        if limit:
            allowed[lane.sweep_id] = limit.less(job.flops)
        yield Turn(job.job_id, lane.sweep_id, lane.owner, lane.priority, lane.need)


def _position(lane: Lane, place: int) -> int:
    return lane.jobs[place].position if place < len(lane.jobs) else -1

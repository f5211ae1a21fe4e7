"""A cluster whose slots only let time pass: what is left is the scheduler's and the store's own work."""

import heapq
import itertools
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headcount import __version__
from headcount.orchestrator.bench.trivial import reports_of
from headcount.orchestrator.cluster import MOMENT_EACH, MOST_MOMENT, Cluster, NodeFacts
from headcount.orchestrator.demand import Demand
from headcount.orchestrator.placement import Making
from headcount.orchestrator.slot import Place
from headcount.orchestrator.store.recording import Record
from headcount.orchestrator.store.transitions import Work
from headcount.orchestrator.warden import Report
from headcount.trainer.config import NUMERICS

NODE = "ab" * 28


@dataclass(order=True)
class Answer:
    """Due at a moment of the monotonic clock."""

    due: float
    number: int
    value: Any = field(compare=False)

    def __hash__(self) -> int:
        return self.number


class Remote(NamedTuple):
    """A method as Ray's handles have them."""

    remote: Callable[..., Answer]


class StandIn(Cluster):
    """One node of `slots` processors, in this process."""

    def __init__(self, slots: int, job_seconds: float, spread: float = 0.0) -> None:
        """Jobs take `job_seconds`, each up to the part `spread` more or less, by a seeded draw."""
        self.is_local, self.own_node, self.address = True, NODE, "nowhere"
        self._slots, self._job_seconds, self._spread = slots, job_seconds, spread
        self._rng = random.Random(0)
        self.jobs: list[tuple[float, float]] = []
        """When each began, and when it ended or will."""
        self._numbers = itertools.count()
        self._coming: list[Answer] = []
        self._there: dict[int, Answer] = {}

    def nodes(self) -> dict[str, NodeFacts]:
        return {NODE: NodeFacts("stand-in", self._slots, 0, None)}

    def live_nodes(self) -> set[str]:
        return {NODE}

    def draining(self) -> dict[str, float | None]:
        return {}

    def declared_maximum(self) -> dict[str, float] | None:
        return None

    def request(self, demand: Demand) -> None:
        """There is nothing to grow."""

    def shared_folders(self) -> list[Path]:
        return []

    def live_slots(self) -> dict[str, Any]:
        return {}

    def create(self, name: str, making: Making, with_gpus: bool) -> "SleepingSlot":
        return SleepingSlot(self)

    def warden(self, node: str) -> "SleepingWarden":
        return SleepingWarden(self)

    def kill(self, handle: Any) -> None:
        """Nobody asks for its answers any more."""

    def ready(self, asked: Iterable[Answer], seconds: float) -> list[Answer]:
        wanted = {answer.number for answer in asked}
        found = self._due(wanted)
        if not found and seconds:
            left = self._coming[0].due - time.monotonic() if self._coming else seconds
            time.sleep(min(seconds, max(0.0, left)) + min(MOST_MOMENT, MOMENT_EACH * len(wanted)))
            found = self._due(wanted)
        return found

    def get(self, answer: Answer) -> Any:
        return answer.value

    def answer(self, seconds: float, value: Any) -> Answer:
        """What `value` is found under, that many seconds from now."""
        made = Answer(time.monotonic() + seconds, next(self._numbers), value)
        heapq.heappush(self._coming, made)
        return made

    def begin(self) -> float:
        """A job begins; how long it takes, in seconds."""
        seconds = self._job_seconds * (1 + self._spread * self._rng.uniform(-1, 1))
        began = time.monotonic()
        self.jobs.append((began, began + seconds))
        return seconds

    def worked(self, since: float, until: float) -> float:
        """Seconds that all slots together were at work between two moments."""
        return sum(max(0.0, min(end, until) - max(began, since)) for began, end in self.jobs)

    def _due(self, wanted: set[int]) -> list[Answer]:
        now = time.monotonic()
        while self._coming and self._coming[0].due <= now:
            answer = heapq.heappop(self._coming)
            self._there[answer.number] = answer
        return [self._there.pop(number) for number in list(self._there) if number in wanted]


class SleepingSlot:
    """A slot that tells what its job has to tell when it is time."""

    def __init__(self, cluster: StandIn) -> None:
        self._cluster = cluster
        self._reports: list[list[Record]] = []
        self._told = 0
        self._seconds = self._began = 0.0
        self.where = Remote(self._where)
        self.start = Remote(self._start)
        self.events = Remote(self._events)

    def _where(self) -> Answer:
        return self._cluster.answer(0.0, Place(f"stand-in/{NODE}", 0, (), __version__, NUMERICS))

    def _start(self, work: Work, wait: float) -> Answer:
        self._reports, self._told = reports_of(work), 0
        self._seconds, self._began = self._cluster.begin(), time.monotonic()
        return self._next(0)

    def _events(self, attempt_id: int, after: int, wait: float) -> Answer:
        return self._next(after + 1)

    def _next(self, first: int) -> Answer:
        """The reports that are due together, when the first of them is."""
        begun = self._told
        self._told = len(self._reports) if self._seconds == 0 else begun + 1
        records = [record for report in self._reports[begun : self._told] for record in report]
        due = self._began + self._seconds * begun / (len(self._reports) - 1)
        return self._cluster.answer(due - time.monotonic(), (first, records))


class SleepingWarden:
    """Finds nothing amiss."""

    def __init__(self, cluster: StandIn) -> None:
        self._cluster = cluster
        self.report = Remote(self._report)

    def _report(self, pids: list[int], marks: list[str]) -> Answer:
        return self._cluster.answer(0.0, Report("stand-in", __version__, NUMERICS, (), {}, ()))

"""A cluster whose slots only let time pass: what is left is the scheduler's and the store's own work."""

import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from headcount import __version__
from headcount.orchestrator.bench.trivial import reports_of
from headcount.orchestrator.cluster.connection import MOMENT_EACH, MOST_MOMENT, Cluster, NodeFacts
from headcount.orchestrator.cluster.warden import Report
from headcount.orchestrator.scheduling.demand import Demand
from headcount.orchestrator.scheduling.placement import Making
from headcount.orchestrator.slots.slot import Place
from headcount.orchestrator.store.recording import Record
from headcount.orchestrator.store.transitions import Work
from headcount.trainer.config import NUMERICS

NODE = "ab" * 28


@dataclass(frozen=True, eq=False)
class Answer:
    """There from a moment of the monotonic clock on."""

    due: float
    value: Any


class Remote(NamedTuple):
    """A method as Ray's handles have them."""

    remote: Callable[..., Answer | None]


class StandIn(Cluster):
    """One node of `slots` processors, in this process."""

    def __init__(self, slots: int, job_seconds: float, spread: float = 0.0) -> None:
        """Jobs take `job_seconds`, each up to the part `spread` more or less, by a seeded draw."""
        self.is_local, self.own_node, self.address = True, NODE, "nowhere"
        self._slots, self._job_seconds, self._spread = slots, job_seconds, spread
        self._rng = random.Random(0)
        self.jobs: list[tuple[float, float]] = []
        """When each began, and when it ended or will."""
        self._live: dict[str, SleepingSlot] = {}

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
        return dict(self._live)

    def create(self, name: str, making: Making, with_gpus: bool) -> "SleepingSlot":
        self._live[name] = SleepingSlot(self)
        return self._live[name]

    def warden(self, node: str) -> "SleepingWarden":
        return SleepingWarden()

    def kill(self, handle: Any) -> None:
        self._live = {name: slot for name, slot in self._live.items() if slot is not handle}

    def ready(self, asked: Iterable[Answer], seconds: float) -> list[Answer]:
        pending = list(asked)
        left = min((answer.due for answer in pending), default=math.inf) - time.monotonic()
        if left > 0 and seconds:
            time.sleep(min(seconds, left + min(MOST_MOMENT, MOMENT_EACH * len(pending))))
        return [answer for answer in pending if answer.due <= time.monotonic()]

    def get(self, answer: Answer) -> Any:
        return answer.value

    def begin(self) -> float:
        """A job begins; how long it takes, in seconds."""
        seconds = self._job_seconds * (1 + self._spread * self._rng.uniform(-1, 1))
        began = time.monotonic()
        self.jobs.append((began, began + seconds))
        return seconds

    def worked(self, since: float, until: float) -> float:
        """Seconds that all slots together were at work between two moments."""
        return sum(max(0.0, min(end, until) - max(began, since)) for began, end in self.jobs)


class SleepingSlot:
    """A slot that tells what its job has to tell when it is time."""

    def __init__(self, cluster: StandIn) -> None:
        self._cluster = cluster
        self._work: Work | None = None
        self._moments: list[tuple[float, Record]] = []
        self.where = Remote(self._where)
        self.start = Remote(self._start)
        self.events = Remote(self._events)
        self.stop = Remote(self._stop)

    def _where(self) -> Answer:
        return Answer(0.0, Place(f"stand-in/{NODE}", 0, (), __version__, NUMERICS))

    def _start(self, work: Work, wait: float) -> Answer:
        if self._work is None or self._work.attempt_id != work.attempt_id:
            self._work = work
            reports, begun, seconds = reports_of(work), time.monotonic(), self._cluster.begin()
            each = seconds / (len(reports) - 1)
            self._moments = [
                (begun + n * each, record) for n, report in enumerate(reports) for record in report
            ]
        return self._events(work.attempt_id, -1, wait)

    def _events(self, attempt_id: int, after: int, wait: float) -> Answer:
        """The records behind number `after`: those of now, or of the next moment that has any."""
        first = after + 1
        due = max(time.monotonic(), self._moments[first][0])
        return Answer(due, (first, [record for at, record in self._moments[first:] if at <= due]))

    def _stop(self, attempt_id: int, cause: str) -> None:
        """The job tells what is due next, and ends."""
        now = time.monotonic()
        due = min((at for at, _ in self._moments if at > now), default=now)
        self._moments = [(at, record) for at, record in self._moments if at <= due]
        if self._moments[-1][1]["kind"] != "ended":
            last: Record = {"kind": "ended", "cause": cause, "message": None, "reusable": False}
            self._moments.append((due, last))


class SleepingWarden:
    """Finds nothing amiss."""

    def __init__(self) -> None:
        self.report = Remote(self._report)

    def _report(self, pids: list[int], marks: list[str]) -> Answer:
        return Answer(0.0, Report("stand-in", __version__, NUMERICS, (), {}, ()))

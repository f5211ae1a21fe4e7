"""The scheduler over a store and a stand-in, in a process of its own, told as JSON.

`python -m … URL SLOTS JOB_SECONDS SPREAD JOBS SECONDS` works until so many jobs have ended, or so long.
"""

import json
import sys
import time
from pathlib import Path

from sqlalchemy import func, select

from headcount.orchestrator.bench.figures import Times
from headcount.orchestrator.bench.stand_in import StandIn
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.scheduler import Scheduler
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Attempt, Event


class ExactWaits(Waits):
    """Keeps every wait, for quantiles."""

    def __init__(self) -> None:
        super().__init__()
        self.times = Times()

    def dispatched(self, free_since: float) -> None:
        before = self.sum
        super().dispatched(free_since)
        self.times.values.append(1000 * (self.sum - before))


def main(url: str, slots: int, job_seconds: float, spread: float, jobs: int, seconds: float) -> None:
    store, waits = open_store(url), ExactWaits()
    cluster = StandIn(slots, job_seconds, spread)
    lease = Lease.acquire(store)
    scheduler = Scheduler(lease, cluster, waits)
    before = _events(store)
    begun = time.monotonic()
    cpu: list[float] = []
    """From the moment that the queue has been read."""

    def over() -> bool:
        if cluster.jobs and not cpu:
            cpu.append(time.process_time())
        busy = len(scheduler.hearing.busy())
        return len(cluster.jobs) - busy >= jobs or time.monotonic() - begun >= seconds

    scheduler.run(over)
    wall = time.monotonic() - begun
    told = {
        "wall": wall,
        "cpu": time.process_time() - cpu[0],
        "events": _events(store) - before,
        "busy": cluster.worked(begun, begun + wall) / slots / wall,
        "busy_after_start": cluster.worked(begun + job_seconds, begun + wall)
        / slots
        / max(1e-9, wall - job_seconds),
        "wait_ms_p99": waits.times.p99,
        "wait_ms_median": waits.times.median,
        "dispatched": len(waits.times.values),
        "peak_mib": _peak_mib(),
    }
    lease.release()
    print(json.dumps(told), flush=True)


def _peak_mib() -> float:
    """The most memory that this process has held, by proc(5)."""
    [line] = [s for s in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if "VmHWM" in s]
    return float(line.split()[1]) / 1024


def _events(store: Store) -> int:
    """Reports, dispatches and ends, as the journal has them, with the attempts' own count beside."""
    with store.read() as session:
        told = session.scalar(select(func.coalesce(func.sum(Attempt.last_event + 1), 0))) or 0
        return int(told) + (session.scalar(select(func.count()).where(Event.kind == "dispatched")) or 0)


if __name__ == "__main__":
    url, slots, job_seconds, spread, jobs, seconds = sys.argv[1:]
    main(url, int(slots), float(job_seconds), float(spread), int(jobs), float(seconds))

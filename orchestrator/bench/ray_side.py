"""Trivial jobs by our scheduler on a local Ray, in a process of its own: `python -m … JOBS HOME URL`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from sqlalchemy import func, select

from headcount.orchestrator.bench.trivial import REPORTS, TrivialSlot, trivial_plan
from headcount.orchestrator.cluster.connection import Cluster
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.scheduler import Scheduler
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store, submit
from headcount.orchestrator.store.models import Evaluation, Job


class TrivialCluster(Cluster):
    """Real slots on a real Ray, but for the training."""

    slot_class = TrivialSlot


def main(jobs: int, home: Path, url: str) -> None:
    settings = Settings(home, url, home / "artifacts")
    store = open_store(settings)
    with store.write() as session:
        submit(session, trivial_plan(jobs), "bench")

    def lost(reason: str) -> NoReturn:
        print(reason, file=sys.stderr)
        os._exit(1)

    cluster = TrivialCluster(settings, None, lost)
    scheduler = Scheduler(Lease.acquire(store), cluster, Waits())
    begun: list[float] = []

    def ended() -> bool:
        if not begun and scheduler.hearing.busy():
            begun.append(time.perf_counter())
        return bool(begun) and not len(scheduler.queue) and not scheduler.hearing.busy()

    scheduler.run(ended)
    seconds = time.perf_counter() - begun[0]
    with store.read() as session:
        finished = session.scalar(select(func.count()).where(Job.state == "finished"))
        reports = session.scalar(select(func.count()).select_from(Evaluation))
    assert (finished, reports) == (jobs, jobs * len(REPORTS)), (finished, reports)
    scheduler.stop()
    cluster.close()
    print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])

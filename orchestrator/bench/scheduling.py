"""What scheduling costs: beside Ray Tune on a real Ray, and alone over a stand-in for one."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headcount.orchestrator.bench.figures import Figure, load_words
from headcount.orchestrator.bench.growth_plot import draw
from headcount.orchestrator.bench.trivial import REPORTS, trivial_plan
from headcount.orchestrator.store import open_store, submit

RACE_JOBS = 1000
QUEUED_JOBS = 10_000
GROWTH_JOBS = (100, 300, 1000, 3000, 10_000)
GROWTH_REPEATS = 3
SLOTS = 1000
SLOT_SECONDS = 60.0
SPREAD = 0.1
"""Jobs take so much more or less: in a sweep too they do not all end at one moment."""

Lines = Iterator[Figure | str]


def race(folder: Path, url: str | None, jobs: int = RACE_JOBS) -> Lines:
    """Trivial jobs on as many slots as there are cores, by our scheduler and then by Ray Tune."""
    slots = len(os.sched_getaffinity(0))
    where = url or f"sqlite:///{folder}/race.db"
    home = folder / "race"
    home.mkdir()
    yield f"{jobs} jobs of {len(REPORTS)} reports on {slots} slots; {load_words()}"
    ours = _told("ray_side", jobs, home, where)
    yield load_words()
    theirs = _told("tune_side", jobs, slots, folder / "tune")
    yield Figure("trivial jobs, every report in the store", jobs / ours["seconds"], "jobs/s")
    detail = f"Ray {theirs['version']}, reuse_actors=True, its own result files"
    yield Figure("  Ray Tune", jobs / theirs["seconds"], "jobs/s", detail=detail)
    yield Figure("  times as fast", theirs["seconds"] / ours["seconds"], "×", at_least=4)


def queue(folder: Path, url: str | None, jobs: int = QUEUED_JOBS) -> Lines:
    """Many jobs are planned, submitted, and worked on for a while by a hundred slots."""
    where = url or f"sqlite:///{folder}/queue.db"
    begun = time.perf_counter()
    _submitted(where, jobs, "queue")
    seconds = time.perf_counter() - begun
    yield Figure(f"{jobs:,} jobs planned and submitted", seconds, "s", at_most=5, detail=load_words())
    told = _told("stand_in_side", where, 100, 5.0, SPREAD, jobs, 30)
    yield Figure(f"  the scheduler's memory with {jobs:,} queued", told["peak_mib"], "MiB", at_most=500)
    detail = f"median {told['wait_ms_median']:.3g}, n = {told['dispatched']}"
    yield Figure("  from a free slot to its job, p99", told["wait_ms_p99"], "ms", at_most=200, detail=detail)


def growth(
    folder: Path,
    url: str | None,
    sizes: Sequence[int] = GROWTH_JOBS,
    repeats: int = GROWTH_REPEATS,
    plot: Path | None = None,
) -> Lines:
    """CPU time for each event while a hundred jobs are worked off, from queues of several lengths.

    The least of some repeats, so that what else the machine does counts little. Of one database given by
    `url` the queue grows; on SQLite each length has a file of its own. Drawn into the file `plot`, if any.
    """
    costs: dict[int, float] = {}
    queued = submitted = 0
    for size in sizes:
        where = url or f"sqlite:///{folder}/growth-{size}.db"
        jobs = size + 100 * repeats - (queued if url else 0)
        _submitted(where, jobs, f"growth-{size}", submitted)
        queued, submitted = size, submitted + jobs
        told = [_told("stand_in_side", where, 2, 0.0, 0.0, 100, 60) for _ in range(repeats)]
        costs[size] = min(1000 * one["cpu"] / one["events"] for one in told)
        yield Figure(f"an event with {size:,} jobs queued", costs[size], "ms", detail="CPU time")
    first, last = costs[sizes[0]], costs[sizes[-1]]
    yield Figure(f"  {sizes[-1]:,} against {sizes[0]:,}", last / first, "×", at_most=1.25)
    if plot is not None:
        draw({"PostgreSQL" if url else "SQLite": costs}, plot)


def slots(folder: Path, url: str | None, seconds: float = 4 * SLOT_SECONDS) -> Lines:
    """A thousand slots of a stand-in, with jobs of a minute, in real time."""
    where = url or f"sqlite:///{folder}/slots.db"
    _submitted(where, QUEUED_JOBS, "slots")
    told = _told("stand_in_side", where, SLOTS, SLOT_SECONDS, SPREAD, QUEUED_JOBS, seconds)
    name = f"{SLOTS:,} slots busy with jobs of {SLOT_SECONDS:g} s"
    detail = f"{told['dispatched']} jobs in {told['wall']:.0f} s; {load_words()}"
    yield Figure(name, 100 * told["busy_after_start"], "%", at_least=99, detail=detail)
    yield Figure("  the first jobs' dispatch included", 100 * told["busy"], "%")
    yield Figure("  cores that scheduler and store take", told["cpu"] / told["wall"], "cores", at_most=0.5)


def measure(part: str, folder: Path, url: str | None, plot: Path | None = None) -> Lines:
    """One part's figures as they are found, and lines on how; `plot` is a file for the growth."""
    if part == "growth":
        return growth(folder, url, plot=plot)
    parts: dict[str, Callable[[Path, str | None], Lines]]
    parts = {"race": race, "queue": queue, "slots": slots}
    return parts[part](folder, url)


def _submitted(url: str, jobs: int, name: str, others: int = 0) -> None:
    store = open_store(url)
    planned = trivial_plan(jobs, name, others)
    with store.write() as session:
        submit(session, planned, "bench")
    store.close()


def _told(module: str, *arguments: object) -> Any:
    """What a process of its own says in its last line."""
    command = [sys.executable, "-P", "-m", f"headcount.orchestrator.bench.{module}", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])

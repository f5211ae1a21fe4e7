"""What is measured, a step each: figures from a filled store and a service over it."""

import asyncio
import json
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import update

from headcount.api import results
from headcount.api.bench import crowd, filling, instruments, service, writer
from headcount.api.bench.client import Answer, Connection, stream
from headcount.api.formats import render
from headcount.orchestrator.bench.figures import Figure, Times, repeated, resident_mib
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.store.recording import record_events

SWEEPS = "/api/v1/sweeps"
QUESTIONS = (
    "table.json",
    "table.csv",
    *(f"tables/{name}.json" for name in ("main", "heads", "grid", "lr", "best_lr", "seeds", "throughput")),
    "free.json?rows=model.routing_heads&columns=model.kv_heads&value=delta&statistic=mean&statistic=se",
)
ERRORS = "tables/errors.json"
OF_INSTRUMENTS = tuple(
    f"tables/{name}.json" for name in ("width", "alignment", "routing", "probe", "downstream")
)
"""Asked of the one sweep that has streams, widths and instruments, `INSTRUMENT_TURNS` times each."""
INSTRUMENT_TURNS = 20
LARGE = filling.Size("large", 40, 10)
ROWS = filling.Size("rows", 20, 5)
GROUPED = filling.Size("grouped", 16, 5)
EVALUATIONS = 41


def sizes(sweeps: int) -> list[filling.Size]:
    """The sweeps of the store: many of 1,000 jobs, and one each of 10,000, 2,500 and 2,000."""
    return [*(filling.Size(f"bench-{i:03}", 8, 5) for i in range(sweeps)), LARGE, ROWS, GROUPED]


def writing(store: Store, mlflow: dict[str, Any] | None) -> Iterator[Figure]:
    """One job's evaluations, a transaction a job, as a slot that told nothing meanwhile would."""
    with store.write() as session:
        attempts = writer.reopen(session, ROWS.name, 60)
    told = [
        {"kind": "evaluation", "step": 500 * n, "loss": 3.4 + n / 1000, "window_losses": []}
        for n in range(EVALUATIONS)
    ]
    times = Times()
    for attempt in attempts:
        with times.one(), store.write() as session:
            record_events(session, attempt, 0, told)
    yield Figure("one job's 41 evaluations written", times.median, "ms", detail=f"n = {len(times.values)}")
    if mlflow:
        batch, theirs = Times(mlflow["batch_ms"]), Times(mlflow["run_ms"])
        yield Figure(
            "  MLflow, a run: create, log_batch of 41, end", theirs.median, "ms", detail=theirs.words()
        )
        yield Figure("  times as fast as the run", theirs.median / times.median, "×", at_least=8)
        yield Figure("  times as fast as its log_batch alone", batch.median / times.median, "×")


def grouping(store: Store, mlflow: dict[str, Any] | None) -> Iterator[Figure]:
    """Mean, spread and number of 2,000 losses by setting, from the store; and the whole ablation table."""
    axes = ["model.routing_heads", "model.kv_heads", "train.peak_lr"]

    def grouped() -> None:
        with store.read() as session:
            results.free_table(session, GROUPED.name, rows=axes, statistics=("mean", "sd"))

    def ablation() -> str:
        with store.read() as session:
            return render(results.ablation_table(session, GROUPED.name), "csv")

    whole = repeated(ablation, 10)
    yield Figure("ablation table of 2,000 jobs, paired, as CSV", whole.median, "ms", detail=whole.words())
    times = repeated(grouped, 10)
    yield Figure("grouped table of 2,000 jobs", times.median, "ms", detail=times.words())
    if mlflow:
        theirs = Times(mlflow["grouped_ms"])
        yield Figure("  MLflow search_runs + groupby", theirs.median, "ms", detail=theirs.words())
        yield Figure("  times as fast", theirs.median / times.median, "×", at_least=30)


def answers(store: Store, where: service.Running, sweeps: int) -> Iterator[Figure]:
    """Tables, cold and as 304, and first pages of jobs, one question at a time."""
    return iter(asyncio.run(_answers(store, where, sweeps)))


async def _answers(store: Store, where: service.Running, sweeps: int) -> list[Figure]:
    connection = Connection(where.port)

    async def ask(path: str, etag: str | None = None) -> Answer:
        found = await connection.get(f"{SWEEPS}/{path}", etag)
        assert found.status == (304 if etag else 200), f"{found.status} {path}: {found.body[:300]!r}"
        return found

    known, pages, large = Times(), Times(), Times()

    async def cold(sweep: str, questions: Sequence[str]) -> dict[str, Times]:
        """What each question takes, by the question."""
        found: dict[str, Times] = {}
        for question in questions:
            _change(store, sweep)  # so that no part is kept from the question before
            first = await ask(f"{sweep}/{question}")
            found[question.partition("?")[0]] = Times([first.milliseconds])
            known.values.append((await ask(f"{sweep}/{question}", first.headers["etag"])).milliseconds)
        return found

    tables = _together([await cold(f"bench-{number:03}", QUESTIONS) for number in range(sweeps)])
    turns = [await cold(instruments.SIZE.name, (*OF_INSTRUMENTS, ERRORS)) for _ in range(INSTRUMENT_TURNS)]
    measured = _together(turns)
    errors = {ERRORS: measured.pop(ERRORS)}
    for number in range(sweeps):
        pages.values.append((await ask(f"bench-{number:03}/jobs")).milliseconds)
    for _ in range(3):
        for question in QUESTIONS:
            _change(store, LARGE.name)
            large.values.append((await ask(f"{LARGE.name}/{question}")).milliseconds)
    first_pages = Times()
    for page in range(100):
        found = await connection.get(f"/api/v1/jobs?limit={100 + page}")
        assert found.status == 200, found.body[:300]
        first_pages.values.append(found.milliseconds)
    connection.close()
    return [
        *_by_median("any table of 1,000 jobs, cold, p99", tables),
        *_by_median("of streams, widths and instruments, p99", measured),
        *_by_median("of the errors inside 1,000 jobs, p99", errors, bound=None),
        Figure("any table, 304, p99", known.p99, "ms", at_most=20, detail=known.words()),
        Figure(
            "any table of 10,000 jobs, cold, largest", large.p99, "ms", at_most=1000, detail=large.words()
        ),
        Figure("first page of a sweep's jobs, p99", pages.p99, "ms", at_most=50, detail=pages.words()),
        Figure("first page of all jobs, p99", first_pages.p99, "ms", at_most=50, detail=first_pages.words()),
    ]


def _together(turns: Sequence[dict[str, Times]]) -> dict[str, Times]:
    """The times of each question in all turns."""
    return {question: Times([t for turn in turns for t in turn[question].values]) for question in turns[0]}


def _by_median(name: str, times: dict[str, Times], bound: float | None = 100) -> list[Figure]:
    """What all took, and each question, the slowest first."""
    every = Times([t for found in times.values() for t in found.values])
    slowest = sorted(times.items(), key=lambda item: -item[1].median)
    return [
        Figure(name, every.p99, "ms", at_most=bound, detail=every.words()),
        *(
            Figure(f"  {question}, median", found.median, "ms", detail=f"largest {max(found.values):.3g}")
            for question, found in slowest
        ),
    ]


def _change(store: Store, sweep: str) -> None:
    """As a result would: every answer about the sweep is old now."""
    with store.write() as session:
        raised = {"version": Sweep.version + 1, "results_version": Sweep.results_version + 1}
        session.execute(update(Sweep).where(Sweep.name == sweep).values(**raised))


def streaming(where: service.Running) -> Iterator[Figure]:
    """A sweep's 100,000 evaluations as CSV."""
    before = resident_mib(where.pids)
    peak = [before]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            peak[0] = max(peak[0], resident_mib(where.pids))

    watcher = threading.Thread(target=watch)
    watcher.start()
    found = [stream(where.port, f"{SWEEPS}/{ROWS.name}/evaluations.csv") for _ in range(5)]
    done.set()
    watcher.join()
    first = Times([s.first_byte_ms for s in found])
    rows = min(s.rows / s.seconds for s in found)
    yield Figure(
        "CSV of 100,000 rows, first byte, largest", first.p99, "ms", at_most=200, detail=first.words()
    )
    yield Figure("  rows a second, least", rows, "rows/s", at_least=50_000, detail=f"{found[0].rows} rows")
    yield Figure("  memory it added to the service", peak[0] - before, "MiB")


def reading_and_writing(
    url: str, where: service.Running, sweeps: int, readers: int, seconds: float
) -> Iterator[Figure]:
    """Readers of ten sweeps, one of which is being written, and what they and the writer do to each other."""
    names = [f"bench-{i:03}" for i in range(min(sweeps, 10))]
    asked = ("table.json", "table.csv", "tables/heads.json", "jobs", "")
    paths = [f"{SWEEPS}/{name}/{question}".rstrip("/") for name in names for question in asked] + [SWEEPS]
    rate = 500
    alone = crowd.end_writer(crowd.start_writer(url, names[0], seconds / 2, rate))
    process = crowd.start_writer(url, names[0], seconds + 6, rate)
    time.sleep(1)
    first = crowd.read(where.port, paths, readers, 5)
    found = crowd.read(where.port, paths, readers, seconds)
    both = crowd.end_writer(process)
    errors = [*first.errors, *found.errors]
    asks = len(found.times.values) / seconds
    words = f"{found.times.words()}, {asks:.0f} questions/s, {found.not_modified} were 304"
    yield Figure(f"{readers} readers beside a writer, p99", found.times.p99, "ms", at_most=500, detail=words)
    yield Figure(
        "  in the first 5 s, nothing kept yet, p99", first.times.p99, "ms", detail=first.times.words()
    )
    yield Figure("  errors", len(errors), "", at_most=0, detail="; ".join(errors[:2]))
    yield Figure("  writer alone, p99", alone.times.p99, "ms", detail=alone.times.words())
    yield Figure("  writer beside the readers, p99", both.times.p99, "ms", detail=both.times.words())
    yield Figure("  writer's p99 to its own alone", both.times.p99 / alone.times.p99, "×", at_most=1.5)
    yield Figure("  events written a second beside them", both.events_per_second, "1/s", at_least=0.98 * rate)


def mlflow_figures(python: str, jobs: int) -> dict[str, Any]:
    """What MLflow takes for the same, by an interpreter that has it."""
    script = Path(__file__).with_name("mlflow_side.py")
    said = subprocess.run([python, str(script), str(jobs)], stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found

"""What is measured beside the tables, a step each: figures from a filled store and a service over it."""

import threading
import time
from collections.abc import Iterator

from headcount.api import results
from headcount.api.bench import crowd, filling, service, tables, writer
from headcount.api.bench.beside_mlflow import Theirs
from headcount.api.bench.client import stream
from headcount.api.formats import render
from headcount.orchestrator.bench.figures import Figure, Times, repeated, resident_mib
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.recording import record_events

ROWS = filling.Size("rows", 20, 5)
GROUPED = filling.Size("grouped", 16, 5)
EVALUATIONS = 41


def sizes(sweeps: int) -> list[filling.Size]:
    """The sweeps of the store: many of 1,000 jobs, and one each of 10,000, 2,500 and 2,000."""
    return [*(filling.Size(f"bench-{i:03}", 8, 5) for i in range(sweeps)), tables.LARGE, ROWS, GROUPED]


def writing(store: Store, mlflow: Theirs | None) -> Iterator[Figure]:
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
        whole, batch = mlflow.whole, mlflow.batches
        yield Figure(
            "  MLflow, a run: create, log_batch of 41, end", whole.median, "ms", detail=whole.words()
        )
        yield Figure("  times as fast as the run", whole.median / times.median, "×", at_least=8)
        yield Figure("  times as fast as its log_batch alone", batch.median / times.median, "×")


def grouping(store: Store, mlflow: Theirs | None) -> Iterator[Figure]:
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
        theirs = mlflow.grouped
        yield Figure("  MLflow search_runs + groupby", theirs.median, "ms", detail=theirs.words())
        yield Figure("  times as fast", theirs.median / times.median, "×", at_least=30)


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
    found = [stream(where.port, f"{tables.SWEEPS}/{ROWS.name}/evaluations.csv") for _ in range(5)]
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
    paths = [f"{tables.SWEEPS}/{name}/{question}".rstrip("/") for name in names for question in asked]
    paths.append(tables.SWEEPS)
    rate = 500
    alone = crowd.end_writer(crowd.start_writer(url, names[0], seconds / 2, rate))
    process = crowd.start_writer(url, names[0], seconds + 6, rate)
    time.sleep(1)
    first = crowd.read(where.port, paths, readers, 5)
    before = where.cpu_seconds()
    found = crowd.read(where.port, paths, readers, seconds)
    cost = 1000 * (where.cpu_seconds() - before) / len(found.times.values)
    both = crowd.end_writer(process)
    burning = crowd.start_burning(cost, len(found.times.values) / seconds, seconds / 2 + 6)
    busy = crowd.end_writer(crowd.start_writer(url, names[0], seconds / 2, rate))
    burning.wait()
    errors = [*first.errors, *found.errors]
    asks = len(found.times.values) / seconds
    words = f"{found.times.words()}, {asks:.0f} questions/s, {found.not_modified} were 304"
    yield Figure(f"{readers} readers beside a writer, p99", found.times.p99, "ms", at_most=500, detail=words)
    yield Figure(
        "  in the first 5 s, nothing kept yet, p99", first.times.p99, "ms", detail=first.times.words()
    )
    yield Figure("  errors", len(errors), "", at_most=0, detail="; ".join(errors[:2]))
    yield Figure("  the service's CPU time a question", cost, "ms")
    yield Figure("  writer alone, p99", alone.times.p99, "ms", detail=alone.times.words())
    yield Figure("  writer beside the readers, p99", both.times.p99, "ms", detail=both.times.words())
    yield Figure("  writer's p99 to its own alone", both.times.p99 / alone.times.p99, "×", at_most=1.5)
    yield Figure(
        "  beside as much computing that asks no store, p99", busy.times.p99, "ms", detail=busy.times.words()
    )
    yield Figure("  events written a second beside them", both.events_per_second, "1/s", at_least=0.98 * rate)

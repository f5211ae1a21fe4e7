"""The benchmark as a whole: a store is filled, then measured step by step."""

import time
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select

from headcount.api.bench import filling, instruments, service, steps, tables
from headcount.api.bench.beside_mlflow import mlflow_figures
from headcount.orchestrator.bench.figures import Figure, load_words
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Sweep
from headcount.trainer.errors import UserError


def measure(
    url: str,
    home: Path,
    sweeps: int,
    readers: int,
    seconds: int,
    workers: int,
    mlflow: str | None,
    mlflow_jobs: int,
) -> Iterator[Figure | str]:
    """Figures as they are found, and lines on how. Raises `UserError` for a store that is not empty."""
    store = open_store(url)
    with store.read() as session:
        if session.scalar(select(Sweep.id).limit(1)) is not None:
            raise UserError("the database has sweeps in it; name an empty one with --url")
    begun = time.perf_counter()
    sizes = steps.sizes(sweeps)
    for size in sizes:
        filling.fill(store, size)
    instruments.fill_instruments(store)
    sizes.append(instruments.SIZE)
    if store.file is None:
        filling.analyze(store)  # as PostgreSQL does by itself, after a while
    jobs = sum(size.jobs for size in sizes)
    took = f"filled in {time.perf_counter() - begun:.0f} s; {load_words()}"
    counts = f"{len(sizes)} sweeps, {jobs:,} jobs, {40 * jobs:,} evaluations"
    yield f"{store.engine.dialect.name}: {counts}, {took}"
    theirs = mlflow_figures(mlflow, mlflow_jobs, url) if mlflow else None
    if theirs:
        yield f"{theirs.words()}; {load_words()}"
    yield from steps.writing(store, theirs)
    yield from steps.grouping(store, theirs)
    with service.running(url, home, workers) as where:
        yield f"headcount serve --workers {workers}; {load_words()}"
        yield from tables.answers(store, where, sweeps)
        yield from steps.streaming(where)
        yield load_words()
        yield from steps.reading_and_writing(url, where, sweeps, readers, seconds)
    yield load_words()
    store.close()

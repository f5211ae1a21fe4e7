"""Every evaluation of a sweep as a stream of rows, in memory that does not grow with their number."""

import importlib
import io
import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import select, tuple_

from headcount.api.formats import to_csv, to_json
from headcount.api.parquet import can_write_parquet
from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Cell, Evaluation, Job, SweepJob

ROW_TYPES = {
    "csv": "text/csv; charset=utf-8",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
"""The forms, by suffix."""

BATCH = 200
"""Jobs in one read: a client that is slow to take them keeps no transaction open."""

FIRST_BATCH = 10
"""Jobs in the first read, so that an answer begins soon."""


class JobRows(NamedTuple):
    """The evaluations of one job, and what all of its rows share."""

    shared: dict[str, Any]
    """The axes by their dotted names, then role, cell, seed, job and state."""
    points: list[tuple[int, float | None]]
    """Step and loss; None where the loss was not finite."""


def can_write(form: str) -> bool:
    """Whether this installation can write a form: parquet needs pyarrow."""
    return form != "parquet" or can_write_parquet()


def stream_rows(store: Store, sweep: str, form: str) -> Iterator[bytes]:
    """The rows of a sweep in one of `ROW_TYPES`, by job in the order of dispatch and by step within it."""
    with store.read() as session:
        axes = find_sweep(session, sweep).axes
    batches = _batches(store, sweep)
    if form == "parquet":
        return _parquet(batches, {axis: _axis_type(values) for axis, values in axes.items()} | _TYPES)
    return _csv(batches) if form == "csv" else _ndjson(batches)


def _batches(store: Store, name: str) -> Iterator[list[JobRows]]:
    with store.read() as session:
        sweep = find_sweep(session, name)
        cells = {
            cell.id: {axis: cell.settings.get(axis) for axis in sweep.axes}
            | {"role": "control" if cell.is_control else "treatment", "cell": cell.id}
            for cell in session.scalars(select(Cell).where(Cell.sweep_id == sweep.id))
        }
    after = (-1, "")
    query = (
        select(SweepJob.position, SweepJob.job_id, SweepJob.cell_id, Job.seed, Job.state)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep.id)
        .order_by(SweepJob.position, SweepJob.job_id)
    )
    size = FIRST_BATCH
    while True:
        following = query.where(tuple_(SweepJob.position, SweepJob.job_id) > after).limit(size)
        with store.read() as session:
            jobs = session.execute(following).all()
            points: dict[str, list[tuple[int, float | None]]] = {job.job_id: [] for job in jobs}
            losses = (
                select(Evaluation.job_id, Evaluation.step, Evaluation.loss)
                .where(Evaluation.job_id.in_(points))
                .order_by(Evaluation.job_id, Evaluation.step)
            )
            for job_id, step, loss in session.execute(losses):
                points[job_id].append((step, loss if loss is not None and math.isfinite(loss) else None))
        # a cell that came after the first read has no settings to tell, and is in the next answer
        known = [job for job in jobs if job.cell_id in cells]
        yield [
            JobRows(
                cells[job.cell_id] | {"seed": job.seed, "job": job.job_id, "state": job.state},
                points[job.job_id],
            )
            for job in known
        ]
        if len(jobs) < size:
            return
        size = BATCH
        after = (jobs[-1].position, jobs[-1].job_id)


def _csv(batches: Iterator[list[JobRows]]) -> Iterator[bytes]:
    begun = False
    for batch in batches:
        lines = []
        for job in batch:
            names, _, shared = to_csv([job.shared]).partition("\n")
            if not begun:
                lines.append(f"{names},step,loss\n")
                begun = True
            start = shared.removesuffix("\n")
            lines += [f"{start},{step},{'' if loss is None else repr(loss)}\n" for step, loss in job.points]
        yield "".join(lines).encode()


def _ndjson(batches: Iterator[list[JobRows]]) -> Iterator[bytes]:
    for batch in batches:
        lines = []
        for job in batch:
            start = to_json(job.shared).removesuffix("}")
            lines += [
                f'{start}, "step": {step}, "loss": {"null" if loss is None else repr(loss)}}}\n'
                for step, loss in job.points
            ]
        yield "".join(lines).encode()


_TYPES = {
    "role": "string",
    "cell": "int64",
    "seed": "int64",
    "job": "string",
    "state": "string",
    "step": "int64",
    "loss": "float64",
}
"""Of the columns behind the axes, in Arrow's names."""


def _axis_type(values: list[Any]) -> str:
    """That of an axis: a number where all of its values are, else text."""
    kinds = {type(value) for value in values}
    return "int64" if kinds <= {int} else "float64" if kinds <= {int, float} else "string"


def _parquet(batches: Iterator[list[JobRows]], types: dict[str, str]) -> Iterator[bytes]:
    """One row group a batch."""
    arrow: Any = importlib.import_module("pyarrow")
    parquet: Any = importlib.import_module("pyarrow.parquet")
    schema = arrow.schema([(name, getattr(arrow, kind)()) for name, kind in types.items()])
    sink = _Sink()
    writer = parquet.ParquetWriter(sink, schema)
    for batch in batches:
        rows = [job.shared | {"step": step, "loss": loss} for job in batch for step, loss in job.points]
        columns = {
            name: [_text(row[name]) if kind == "string" else row[name] for row in rows]
            for name, kind in types.items()
        }
        writer.write_table(arrow.table(columns, schema=schema))
        yield sink.taken()
    writer.close()
    yield sink.taken()


def _text(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


class _Sink(io.RawIOBase):
    """Where a writer writes, and from where what it wrote is taken at once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts = []
        return taken

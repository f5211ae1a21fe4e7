"""A sweep as one flat file for other programs: a row an evaluation, or a row a run without curves."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.rows import BATCH, Row
from headcount.orchestrator.following.overview import find_sweep
from headcount.orchestrator.store.models import Cell, Evaluation, Job, Sweep, SweepJob
from headcount.trainer.errors import UserError

FORMS = ("csv", "jsonl", "parquet")

_STREAM = "model.residual"


def write_flat(session: Session, name: str, form: str, file: Path) -> int:
    """Write the losses of a sweep, whole or not at all; how many rows.

    Axes stand under their dotted names beside `role`, `seed`, `step`, `loss`, `state` and `job`, so that
    'headcount import' reads the file back with --control model.residual=additive. A loss that was not
    finite is `nan`. Raises `UserError` for an unknown sweep, and where the file cannot be written.
    """
    sweep = find_sweep(session, name)
    rows = list(_evaluations(session, sweep)) or list(_results(session, sweep))
    if not rows:
        raise UserError(f"the sweep {name!r} has no loss yet")
    partial = file.with_name(f".{file.name}.partial")
    try:
        {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}[form](partial, rows)
        os.replace(partial, file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise UserError(f"cannot write {file}: {error.strerror or error}") from error
    return len(rows)


def _evaluations(session: Session, sweep: Sweep) -> Iterator[Row]:
    query = (
        select(Cell, Job, SweepJob.position, Evaluation.step, Evaluation.loss)
        .join(SweepJob, SweepJob.cell_id == Cell.id)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Evaluation, Evaluation.job_id == Job.id)
        .where(SweepJob.sweep_id == sweep.id)
        .order_by(SweepJob.position, Job.id, Evaluation.step)
    )
    for cell, job, _, step, loss in session.execute(query, execution_options={"yield_per": BATCH}):
        yield _row(sweep, cell, job, {"step": step, "loss": float("nan") if loss is None else loss})


def _results(session: Session, sweep: Sweep) -> Iterator[Row]:
    query = (
        select(Cell, Job)
        .join(SweepJob, SweepJob.cell_id == Cell.id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id == sweep.id, Job.state.in_(("finished", "diverged")))
        .order_by(SweepJob.position, Job.id)
    )
    for cell, job in session.execute(query):
        yield _row(sweep, cell, job, {"loss": float("nan") if job.tail_mean is None else job.tail_mean})


def _row(sweep: Sweep, cell: Cell, job: Job, numbers: Row) -> Row:
    row: Row = {_STREAM: job.config[_STREAM]} if _STREAM in job.config else {}
    row |= {axis: cell.settings.get(axis) for axis in sweep.axes}
    role = "control" if cell.is_control else "treatment"
    return row | {"role": role, "seed": job.seed, **numbers, "state": job.state, "job": job.id}


def _csv(file: Path, rows: list[Row]) -> None:
    with open(file, "w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _jsonl(file: Path, rows: list[Row]) -> None:
    """Strictly JSON: `nan` is text, which importing takes for the number."""
    with open(file, "w", encoding="utf-8") as out:
        for row in rows:
            loss: Any = row["loss"] if row["loss"] == row["loss"] else "nan"
            out.write(json.dumps(row | {"loss": loss}, ensure_ascii=False, allow_nan=False) + "\n")


def _parquet(file: Path, rows: list[Row]) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError("writing Parquet needs pyarrow; install it, or export to csv") from error
    parquet.write_table(pyarrow.Table.from_pylist(rows), file)

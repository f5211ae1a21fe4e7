"""A table of one's own: chosen rows, columns, value and statistic, over every job that the filters keep."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.cells import TRAINED
from headcount.api.results.curves import HEADS, KV_HEADS
from headcount.api.results.lookup import QueryError, find_sweep
from headcount.api.results.named import NamedTable
from headcount.api.results.records import Record
from headcount.api.results.selection import RATE
from headcount.api.results.tables import ESTIMATOR
from headcount.orchestrator.store.models import Cell, Job, Sweep, SweepJob
from headcount.sweeps.statistics import interquartile_mean, sample_sd
from headcount.trainer.errors import nearest

SEED = "seed"
"""A row or column beside the axes."""

Value = Literal["loss", "delta"]
Statistic = Literal["mean", "median", "iqm", "sd", "se", "min", "max", "n"]

_STATISTICS: dict[str, Callable[[list[float]], float | None]] = {
    "mean": lambda x: math.fsum(x) / len(x),
    "median": median,
    "iqm": interquartile_mean,
    "sd": lambda x: sample_sd(x) if len(x) > 1 else None,
    "se": lambda x: sample_sd(x) / math.sqrt(len(x)) if len(x) > 1 else None,
    "min": min,
    "max": max,
    "n": len,
}


@dataclass(frozen=True)
class Filters:
    """Which jobs count: all that fit every filter; an empty one lets all through."""

    heads: tuple[int, ...] = ()
    kv_heads: tuple[int, ...] = ()
    lr_min: float | None = None
    lr_max: float | None = None
    seeds: tuple[int, ...] = ()
    role: Literal["treatment", "control"] | None = None


NO_FILTERS = Filters()


class _Job(NamedTuple):
    """One job as it is grouped."""

    seed: int
    state: str
    value: float | None


class _Group(NamedTuple):
    """The jobs of one row, by column."""

    axes: Record
    """Of the row."""
    columns: defaultdict[str, list[_Job]]


def free_table(
    session: Session,
    name: str,
    *,
    rows: Sequence[str],
    columns: str | None = None,
    value: Value = "loss",
    statistics: Sequence[Statistic] = ("mean",),
    filters: Filters = NO_FILTERS,
) -> NamedTable:
    """Each of `statistics` of `value` over all jobs of each row and column; axes are named as in the file.

    `value` is the tail mean, or its difference to the control's at the same seed. A group with a diverged job
    has no statistic, and says how many diverged. Raises `NotFoundError` for the sweep, and `QueryError` for
    an axis that it does not vary, one that is named twice, or filters that keep no job.
    """
    sweep = find_sweep(session, name)
    chosen = [*rows, *([columns] if columns else [])]
    for axis in chosen:
        if axis != SEED and axis not in sweep.axes:
            raise QueryError(f"sweep {name!r} has no axis {axis!r}; {nearest(axis, [*sweep.axes, SEED])}")
    if not rows or len(set(chosen)) < len(chosen):
        raise QueryError("a table needs an axis for its rows, and each axis once")
    groups = _groups(_jobs(session, sweep, value, filters), rows, columns, value)
    if not groups:
        raise QueryError(f"sweep {name!r} has no job that these filters keep")
    records = [_record(group, statistics) for group in groups]
    names = tuple(dict.fromkeys(column for record in records for column in record))
    question = f"What is the {', '.join(statistics)} of the {value} by {', '.join(chosen)}?"
    return NamedTable(
        name="free",
        question=question,
        sweep=sweep.name,
        version=sweep.results_version,
        estimator=ESTIMATOR if value == "loss" else f"{ESTIMATOR}, minus the control's at the same seed",
        test="none",
        family=None,
        size=None,
        law=None,
        columns=names,
        rows=tuple({column: record.get(column) for column in names} for record in records),
    )


def _jobs(
    session: Session, sweep: Sweep, value: Value, filters: Filters
) -> Iterator[tuple[dict[str, Any], list[_Job]]]:
    """The settings and jobs of each cell that counts, in the order of the plan and by seed."""
    cells = session.execute(
        select(Cell.id, Cell.settings, Cell.is_control, Cell.control_id)
        .where(Cell.sweep_id == sweep.id)
        .order_by(Cell.position, Cell.id)
    ).all()
    found: dict[int, list[_Job]] = {cell.id: [] for cell in cells}
    query = select(SweepJob.cell_id, Job.seed, Job.state, Job.tail_mean).join(Job, Job.id == SweepJob.job_id)
    for cell_id, seed, state, loss in session.execute(
        query.where(SweepJob.sweep_id == sweep.id, Job.kind.in_(TRAINED)).order_by(Job.seed)
    ):
        known = state == "finished" and loss is not None and math.isfinite(loss)
        found[cell_id].append(_Job(seed, state, loss if known else None))
    for cell in cells:
        if not _kept(cell, filters) or (value == "delta" and cell.control_id is None):
            continue
        jobs = [job for job in found[cell.id] if not filters.seeds or job.seed in filters.seeds]
        if value == "delta":
            control = {job.seed: job.value for job in found.get(cell.control_id, ())}
            jobs = [job._replace(value=_minus(job.value, control.get(job.seed))) for job in jobs]
        yield cell.settings, jobs


def _minus(loss: float | None, other: float | None) -> float | None:
    return None if loss is None or other is None else loss - other


def _kept(cell: Any, filters: Filters) -> bool:
    settings, rate = cell.settings, cell.settings.get(RATE)
    return (
        (not filters.heads or settings.get(HEADS) in filters.heads)
        and (not filters.kv_heads or settings.get(KV_HEADS) in filters.kv_heads)
        and (filters.lr_min is None or (rate is not None and rate >= filters.lr_min))
        and (filters.lr_max is None or (rate is not None and rate <= filters.lr_max))
        and (filters.role is None or cell.is_control == (filters.role == "control"))
    )


def _groups(
    cells: Iterator[tuple[dict[str, Any], list[_Job]]],
    rows: Sequence[str],
    columns: str | None,
    value: Value,
) -> list[_Group]:
    """The jobs of all cells by row and column; those of a cell part only where the seed is one of these."""
    groups: dict[str, _Group] = {}
    for settings, jobs in cells:
        parts = [[job] for job in jobs] if SEED in (*rows, columns) else [jobs] if jobs else []
        for part in parts:
            at = {**settings, SEED: part[0].seed}
            axes = {axis: at.get(axis) for axis in rows}
            column = f"{columns}={at.get(columns)}" if columns else value
            group = groups.setdefault(repr(axes), _Group(axes, defaultdict(list)))
            group.columns[column] += part
    return list(groups.values())


def _record(group: _Group, statistics: Sequence[Statistic]) -> Record:
    """One row: its axes, the statistics a column, and what all of it rests on."""
    record = dict(group.axes)
    for column, members in group.columns.items():
        values = [job.value for job in members if job.value is not None]
        told = bool(values) and all(job.state != "diverged" for job in members)
        for statistic in statistics:
            record[f"{statistic} {column}"] = _STATISTICS[statistic](values) if told else None
        record[f"n {column}"] = len(values)
    jobs = [job for members in group.columns.values() for job in members]
    known = {job.seed for job in jobs if job.value is not None}
    return record | {
        "jobs": len(jobs),
        "without_value": sum(job.value is None for job in jobs),
        "diverged": sum(job.state == "diverged" for job in jobs),
        "seeds": tuple(sorted(known)),
        "seeds_missing": tuple(sorted({job.seed for job in jobs} - known)),
    }

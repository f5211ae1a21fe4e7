"""The tails of finished jobs: the losses that each reports the mean of, and those by window at its end."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import isfinite
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import from_json
from sqlalchemy import text
from sqlalchemy.orm import Session

from headcount.api.results.driver_rows import driver_rows
from headcount.api.results.lookup import sweep_id_of


class JobTail(NamedTuple):
    """Of one job."""

    cell: int
    seed: int
    losses: Sequence[float]
    """In the order of the steps, without those that were not finite."""
    windows: list[float | None] | None
    """Losses by window at the last step, None for one that was not finite; if two or more were kept."""


def job_tails(session: Session, sweep: str) -> list[JobTail]:
    """Of every finished job that has evaluations in its tail, in the order of the jobs' ids.

    Raises `NotFoundError`.
    """
    connection, asked = session.connection(), {"sweep": sweep_id_of(session, sweep)}
    if connection.dialect.name == "sqlite":
        jobs = list(_of_rows(driver_rows(connection, _ROWS, asked)))
    else:
        rows = connection.execute(_JOBS, asked).all()
        jobs = [(*job, np.frombuffer(losses, ">f8").tolist(), end) for *job, losses, end in rows]
    # many short texts of JSON take longer to read than a long one
    ends = iter(from_json(f"[{','.join([end for *_, end in jobs if end is not None])}]"))
    return [
        JobTail(cell, seed, _finite(losses, tail), _some(next(ends)) if end is not None else None)
        for cell, seed, tail, losses, end in jobs
    ]


def _of_rows(rows: Any) -> Iterator[tuple[int, int, int | None, Sequence[float | None], str | None]]:
    for (cell, seed, tail), of_job in groupby(rows, itemgetter(0, 1, 2)):
        *_, losses, ends = zip(*of_job, strict=True)
        yield cell, seed, tail, losses, ends[-1]


def _finite(losses: Sequence[float | None], tail: int | None) -> Sequence[float]:
    """Those that count, of a job that reports over its last `tail` evaluations, if that is given."""
    known = [loss for loss in losses if loss is not None and isfinite(loss)]
    return known if tail is None else known[-tail:]


def _some(windows: list[float | None] | None) -> list[float | None] | None:
    return windows if windows and len(windows) > 1 else None


# one comparison for both rules of a tail, so that a range of the evaluations' index is read
_TAIL = """
    w.sweep_id = :sweep AND j.id = w.job_id AND j.state = 'finished' AND e.job_id = w.job_id
    AND e.step >= CASE WHEN j.tail IS NULL THEN (j.step * 3 + 3) / 4 ELSE 0 END"""
_END = "CASE WHEN e.step = j.step THEN CAST(e.window_losses AS TEXT) END"

_ROWS = f"""
    SELECT w.cell_id, j.seed, j.tail, e.loss, {_END}
    FROM sweep_job w CROSS JOIN job j CROSS JOIN evaluation e WHERE {_TAIL} ORDER BY w.job_id, e.step"""
"""For SQLite, which would round numbers that it puts together as text."""

_JOBS = text(f"""
    SELECT w.cell_id, j.seed, j.tail, tail.losses, tail.windows
    FROM sweep_job w CROSS JOIN job j CROSS JOIN LATERAL (
        SELECT string_agg(float8send(coalesce(e.loss, 'NaN')), '' ORDER BY e.step) AS losses,
            max({_END}) AS windows
        FROM evaluation e WHERE {_TAIL}) tail
    WHERE w.sweep_id = :sweep AND j.id = w.job_id AND tail.losses IS NOT NULL ORDER BY w.job_id""")
"""For PostgreSQL: a job's losses as the bytes that they are sent as."""

"""What the finished jobs of a sweep told beside their losses: measurements, read as a row a job.

As a row a number, SQLAlchemy and Python would take longer over some fifty numbers a job than the store.
"""

from functools import lru_cache
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.orm import Session

from headcount.api.results.driver_rows import driver_rows

Numbers = NDArray[np.float64]


class Told(NamedTuple):
    """Of one finished job."""

    job: str
    cell: int
    seed: int
    names: tuple[str, ...]
    """Of its measurements, in any order."""
    values: Numbers
    """Of each; NaN where the store has none, as for what was not finite."""


def told_by_jobs(session: Session, sweep_id: int, first: str, behind: str) -> list[Told]:
    """What the sweep's own jobs told by names from `first` to before `behind`; of those that told any."""
    connection, asked = session.connection(), {"sweep": sweep_id, "first": first, "behind": behind}
    if connection.dialect.name != "sqlite":
        return _as_bytes(connection, _OWN, asked)
    jobs = [row for row in connection.execute(_NAMES, asked).all() if row.names is not None]
    if not jobs:
        return []
    values = np.array([*chain.from_iterable(driver_rows(connection, _NUMBERS, asked))], float)
    named = [_split(job.names) for job in jobs]
    ends = [*accumulate(map(len, named))]
    return [
        Told(job.id, job.cell_id, job.seed, names, values[end - len(names) : end])
        for job, names, end in zip(jobs, named, ends, strict=True)
        if job.state == "finished"
    ]


def told_by_instruments(session: Session, sweep_id: int, first: str, behind: str) -> list[Told]:
    """As `told_by_jobs`, of the instruments that looked at them: of each job the newest last."""
    connection, asked = session.connection(), {"sweep": sweep_id, "first": first, "behind": behind}
    if connection.dialect.name != "sqlite":
        return _as_bytes(connection, _INSTRUMENTS, asked)
    found = []
    for (job, cell, seed), rows in groupby(driver_rows(connection, _ROWS, asked), itemgetter(0, 1, 2)):
        _, _, _, names, values = zip(*rows, strict=True)
        found.append(Told(job, cell, seed, names, np.array(values, float)))
    return found


# in this order: SQLite would begin with all finished jobs of the store
_OF_OWN = "FROM sweep_job w CROSS JOIN job j {} WHERE w.sweep_id = :sweep AND j.id = w.job_id"
_OF_INSTRUMENTS = (
    "FROM sweep_job w CROSS JOIN job j {} WHERE w.sweep_id = :sweep AND j.parent_id = w.job_id "
    "AND j.state = 'finished'"
)
_NAMED = "m.job_id = j.id AND m.name >= :first AND m.name < :behind"
_NEWEST_LAST = "ORDER BY w.job_id, j.ended, j.id"


def _by_job(jobs: str) -> TextClause:
    """For PostgreSQL: a job's numbers as the bytes that they are sent as."""
    numbers = f"""CROSS JOIN LATERAL (
        SELECT string_agg(m.name, chr(10) ORDER BY m.name) AS names,
            string_agg(float8send(coalesce(m.value, 'NaN')), '' ORDER BY m.name) AS numbers
        FROM measurement m WHERE {_NAMED}) told"""
    return text(f"""
        SELECT j.id, w.cell_id, j.seed, told.names, told.numbers
        {jobs.format(numbers)} AND told.names IS NOT NULL {_NEWEST_LAST}""")


_OWN = _by_job(f"{_OF_OWN} AND j.state = 'finished'")
_INSTRUMENTS = _by_job(_OF_INSTRUMENTS)

# a sweep's own jobs are of these kinds: with them, an index has all that is read of a job
_NAMES = text(f"""
    SELECT j.id, w.cell_id, j.seed, j.state,
        (SELECT group_concat(m.name, char(10)) FROM measurement m WHERE {_NAMED}) AS names
    {_OF_OWN.format("")} AND j.kind IN ('train', 'external') ORDER BY w.job_id""")
_NUMBERS = """
    SELECT m.value FROM sweep_job w CROSS JOIN measurement m
    WHERE w.sweep_id = :sweep AND m.job_id = w.job_id AND m.name >= :first AND m.name < :behind
    ORDER BY w.job_id, m.name"""
"""For SQLite, which would round numbers that it puts together as text."""

_ROWS = f"""
    SELECT j.id, w.cell_id, j.seed, m.name, m.value
    {_OF_INSTRUMENTS.format("CROSS JOIN measurement m")} AND {_NAMED} {_NEWEST_LAST}"""
"""For SQLite: they tell too little each for two statements."""


def _as_bytes(connection: Connection, statement: TextClause, asked: dict[str, Any]) -> list[Told]:
    return [
        Told(job, cell, seed, _split(names), np.frombuffer(numbers, ">f8").astype(float))
        for job, cell, seed, names, numbers in connection.execute(statement, asked).all()
    ]


@lru_cache(maxsize=256)
def _split(names: str) -> tuple[str, ...]:
    """In the order of their characters. Jobs of one shape tell the same."""
    return tuple(sorted(names.split("\n")))

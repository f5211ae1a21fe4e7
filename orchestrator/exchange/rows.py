"""Rows of the store as lines of JSON, one object a row, numbers in full precision and moments in ISO 8601."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Select, Table, insert, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.columns import UtcDateTime

Row = dict[str, Any]

BATCH = 2000
"""Rows in memory at a time."""


def to_line(row: Mapping[str, Any]) -> str:
    """A row as one line: equal rows are equal lines on every engine, and the order of axes stays."""
    plain = {k: v.isoformat() if isinstance(v, datetime) else v for k, v in row.items()}
    return json.dumps(plain, ensure_ascii=False) + "\n"


def from_line(table: Table, line: str) -> Row:
    """The inverse of `to_line`. Raises ValueError for what is no row of the table."""
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError(f"{type(row).__name__} in place of an object")
    unknown = row.keys() - table.c.keys()
    if unknown:
        raise ValueError(f"{table.name} has no column {min(unknown)!r}")
    for name, value in row.items():
        if value is not None and isinstance(table.c[name].type, UtcDateTime):
            row[name] = datetime.fromisoformat(value)
    return row


def read_rows(session: Session, query: Select[Any]) -> Iterator[Row]:
    """The rows of a query over a table's columns, a batch at a time."""
    for row in session.execute(query, execution_options={"yield_per": BATCH}):
        yield dict(row._mapping)


def insert_rows(session: Session, table: Table, rows: Iterable[Row]) -> int:
    """Insert rows a batch at a time; how many. References within the table are set at the end."""
    own = [c.name for c in table.c if any(key.column.table is table for key in c.foreign_keys)]
    [key] = table.primary_key.columns if own else [None]
    later: list[tuple[Any, Row]] = []
    count = 0
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        count += len(batch)
        if key is not None:
            references = [(row[key.name], {n: row.get(n) for n in own}) for row in batch]
            later += [pair for pair in references if any(v is not None for v in pair[1].values())]
            batch = [row | dict.fromkeys(own) for row in batch]
        session.execute(insert(table), batch)
    for value, pointers in later:
        assert key is not None
        session.execute(update(table).where(key == value).values(pointers))
    return count

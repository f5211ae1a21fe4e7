"""A whole store into another one, from SQLite to PostgreSQL or back: the same rows under the same numbers."""

import hashlib

from sqlalchemy import Table, func, select, text
from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.rows import insert_rows, read_rows, to_line
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Base, Lease
from headcount.trainer.errors import UserError

NOT_COPIED = frozenset({Lease.__tablename__})
"""Who schedules there is decided there."""


def copy_store(source: Store, target: Store) -> dict[str, int]:
    """Copy every row of `source` to the empty store `target`, and compare; rows by table.

    All or nothing: raises `UserError` where the target holds rows already, and leaves it as it was.
    """
    tables = [t for t in Base.metadata.sorted_tables if t.name not in NOT_COPIED]
    with source.read() as reading, target.write() as writing:
        for table in tables:
            if writing.execute(select(*table.c).limit(1)).first() is not None:
                where = target.engine.url.render_as_string()
                raise UserError(f"the store {where} is not empty: it has rows of {table.name}; name another")
        counts = {}
        for table in tables:
            query = select(*table.c).order_by(*table.primary_key.columns)
            counts[table.name] = insert_rows(writing, table, read_rows(reading, query))
            if _digest(reading, table) != _digest(writing, table):
                raise UserError(f"the rows of {table.name} do not read back as they were written")
        if target.engine.dialect.name == "postgresql":
            _set_sequences(writing, tables)
    return counts


def _digest(session: Session, table: Table) -> str:
    """Of all rows, whatever order the engine would put their keys in."""
    total = 0
    for row in read_rows(session, select(*table.c)):
        total += int.from_bytes(hashlib.sha256(to_line(row).encode()).digest())
    return f"{total % 2**256:x}"


def _set_sequences(session: Session, tables: list[Table]) -> None:
    """The next row of each table gets a number above those copied."""
    for table in tables:
        column = table.autoincrement_column
        newest = session.scalar(select(func.max(column))) if column is not None else None
        if column is not None and newest is not None:
            sequence = {"table": table.name, "column": column.name, "newest": newest}
            session.execute(text("SELECT setval(pg_get_serial_sequence(:table, :column), :newest)"), sequence)

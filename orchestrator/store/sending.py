"""Many rows and statements on one way to the store: what a way costs is paid once."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import Dialect, Table
from sqlalchemy.orm import Session


@contextmanager
def sent_together(session: Session) -> Iterator[None]:
    """On PostgreSQL, the statements inside go to the server together, and it answers with the next one or
    with the commit.

    Nothing may be asked of their results, not even how many rows they changed: the first error of any is
    raised there.
    """
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        yield  # in this process: there is no way to save
        return
    driver: Any = connection.connection.driver_connection
    with driver.sent_together():
        yield


Rows = Sequence[Mapping[str, Any]]
"""Of one table, all with the same columns in the same order."""


class Write(NamedTuple):
    """What is written to one table."""

    how: Literal["insert", "set", "add"]
    """New rows; other values in rows that are there, each known by its `id`; or numbers added to theirs."""
    table: Table
    rows: Rows


def write_all(session: Session, writes: Sequence[Write]) -> None:
    """Write to several tables, no row twice: on PostgreSQL by one statement with a parameter a table."""
    writes = [write for write in writes if write.rows]
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        for how, table, rows in writes:
            columns = _columns(how, rows)
            connection.exec_driver_sql(
                _each(how, table, columns), _values(connection.dialect, table, columns, rows)
            )
    elif writes:
        statement = _all(tuple((how, table, _columns(how, rows)) for how, table, rows in writes))
        connection.exec_driver_sql(statement, tuple(_document(write.rows) for write in writes))


def _columns(how: str, rows: Rows) -> tuple[str, ...]:
    """In the order of the parameters: what a row is known by comes last."""
    names = tuple(rows[0])
    return names if how == "insert" else (*(name for name in names if name != "id"), "id")


@cache
def _each(how: str, table: Table, columns: tuple[str, ...]) -> str:
    """For SQLite, a row at a time."""
    if how == "insert":
        return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)})"
    held = "{0} + " if how == "add" else ""
    news = ", ".join(f"{{0}} = {held}?".format(name) for name in columns[:-1])
    return f"UPDATE {table.name} SET {news} WHERE id = ?"


@cache
def _all(writes: tuple[tuple[str, Table, tuple[str, ...]], ...]) -> str:
    """For PostgreSQL, all rows at once."""
    *before, last = (_of_table(*write) for write in writes)
    parts = ", ".join(f"part_{n} AS ({part})" for n, part in enumerate(before))
    return f"WITH {parts} {last}" if before else last


def _of_table(how: str, table: Table, columns: tuple[str, ...]) -> str:
    name, told = table.name, _told(table, columns)
    if how == "insert":
        return f"INSERT INTO {name} ({', '.join(columns)}) SELECT {', '.join(columns)} FROM {told}"
    held = f"{name}.{{0}} + " if how == "add" else ""
    news = ", ".join(f"{{0}} = {held}told.{{0}}".format(column) for column in columns[:-1])
    return f"UPDATE {name} SET {news} FROM {told} WHERE {name}.id = told.id"


def _told(table: Table, columns: tuple[str, ...]) -> str:
    """The rows of a `_document` as PostgreSQL reads them."""
    from sqlalchemy.dialects import postgresql  # which SQLite can do without

    dialect: Any = postgresql.dialect
    types = ", ".join(f"{name} {table.c[name].type.compile(dialect())}" for name in columns)
    return f"json_to_recordset(%s::json) AS told({types})"


def _document(rows: Rows) -> str:
    """Rows as one JSON text, in which numbers are told exactly: to write values one by one in the driver's
    ways, or SQLAlchemy's, takes longer than all the rest of the client's work.

    What no text of PostgreSQL can hold becomes a question mark: halves of characters, and the character 0.
    """
    from pydantic_core import PydanticSerializationError, to_json  # which SQLite can do without

    try:
        text = to_json(rows, inf_nan_mode="constants").decode()
    except PydanticSerializationError:  # it refuses half a character
        text = json.dumps(rows, ensure_ascii=False, default=datetime.isoformat)
        text = text.encode("utf-8", "replace").decode("utf-8")
    return _ZERO.sub(r"\1?", text) if "\\u0000" in text else text


_ZERO = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")
"""The character 0 in JSON, and not a backslash before the letters."""


def _values(dialect: Dialect, table: Table, columns: Sequence[str], rows: Rows) -> list[tuple[Any, ...]]:
    """Rows as SQLite's driver takes them."""
    told = []
    for name in columns:
        values = [row[name] for row in rows]
        if write := table.c[name].type.dialect_impl(dialect).bind_processor(dialect):
            values = [None if value is None else write(value) for value in values]
        told.append(values)
    return list(zip(*told, strict=True))

"""Many rows and statements on one way to the store: what a way costs is paid once."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Dialect, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session


@contextmanager
def sent_together(session: Session) -> Iterator[None]:
    """On PostgreSQL, the statements inside go to the server together, and it answers once for all.

    Nothing may be asked of their results, not even how many rows they changed: the first error of any is
    raised at the end.
    """
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        yield  # in this process: there is no way to save
        return
    driver: Any = connection.connection.driver_connection
    try:
        with driver.pipeline():
            yield
    except connection.dialect.loaded_dbapi.Error as error:
        if driver.closed:
            connection.invalidate(error)
        raise DBAPIError("sent together", None, error, connection_invalidated=driver.closed) from error


Rows = Sequence[Mapping[str, Any]]
"""Of one table, all with the same columns in the same order."""


def insert_rows(session: Session, table: Table, rows: Rows) -> None:
    """Insert rows: on PostgreSQL by one statement with one parameter."""
    if not rows:
        return
    connection, columns = session.connection(), tuple(rows[0])
    if connection.dialect.name == "sqlite":
        values = _values(connection.dialect, table, columns, rows)
        connection.exec_driver_sql(_insert_each(table, columns), values)
    else:
        connection.exec_driver_sql(_insert_all(table, columns), (_document(rows),))


def set_rows(session: Session, table: Table, rows: Rows) -> None:
    """Set columns of rows that are there, each named by its `id`; sent as by `insert_rows`."""
    if not rows:
        return
    connection, columns = session.connection(), tuple(name for name in rows[0] if name != "id")
    if connection.dialect.name == "sqlite":
        values = _values(connection.dialect, table, (*columns, "id"), rows)
        connection.exec_driver_sql(_set_each(table, columns), values)
    else:
        connection.exec_driver_sql(_set_all(table, columns), (_document(rows),))


@cache
def _insert_each(table: Table, columns: tuple[str, ...]) -> str:
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' for _ in columns)})"


@cache
def _set_each(table: Table, columns: tuple[str, ...]) -> str:
    return f"UPDATE {table.name} SET {', '.join(f'{name} = ?' for name in columns)} WHERE id = ?"


@cache
def _insert_all(table: Table, columns: tuple[str, ...]) -> str:
    names = ", ".join(columns)
    return f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {_told(table, columns)}"


@cache
def _set_all(table: Table, columns: tuple[str, ...]) -> str:
    news = ", ".join(f"{name} = told.{name}" for name in columns)
    told = _told(table, ("id", *columns))
    return f"UPDATE {table.name} SET {news} FROM {told} WHERE {table.name}.id = told.id"


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
    text = json.dumps(rows, ensure_ascii=False, default=datetime.isoformat)
    if "\\u0000" in text:
        text = _ZERO.sub(r"\1?", text)
    return text.encode("utf-8", "replace").decode("utf-8")


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

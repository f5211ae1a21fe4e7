"""Many rows and statements on one way to the store: what a way costs is paid once."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from sqlalchemy import ARRAY, Executable, Table, bindparam, column, func, insert, select
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


def insert_rows(session: Session, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns.

    PostgreSQL gets a list for each column: with a statement for each row it takes three times as long.
    """
    if not rows:
        return
    connection = session.connection()
    if connection.dialect.name == "sqlite":
        connection.execute(_by_row(table), rows)
    else:
        columns = tuple(rows[0])
        lists = {name: [row[name] for row in rows] for name in columns}
        connection.execute(_by_column(table, columns), lists)


@cache
def _by_row(table: Table) -> Executable:
    return insert(table).inline()  # whose keys nobody asks for


@cache
def _by_column(table: Table, columns: tuple[str, ...]) -> Executable:
    lists = [bindparam(name, type_=ARRAY(table.c[name].type, dimensions=1)) for name in columns]
    names = [column(name, table.c[name].type) for name in columns]
    rows = func.unnest(*lists).table_valued(*names).render_derived()
    return insert(table).inline().from_select(columns, select(*rows.c), include_defaults=False)

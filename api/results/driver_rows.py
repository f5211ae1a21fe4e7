"""Rows of SQLite as its driver gives them: with SQLAlchemy, a row takes half as long again."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def driver_rows(connection: Connection, statement: str, asked: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What a statement with the named parameters `asked` finds. Raises `DBAPIError`, as SQLAlchemy does."""
    driver: Any = connection.connection.driver_connection
    try:
        rows: list[tuple[Any, ...]] = driver.execute(statement, asked).fetchall()
    except connection.dialect.loaded_dbapi.Error as error:
        raise DBAPIError(statement, asked, error) from error
    return rows

"""Rows by SQLite's driver: those of the transaction, and its errors as SQLAlchemy's."""

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from headcount.api.results.driver_rows import driver_rows
from headcount.orchestrator.store import Store


def test_they_are_of_the_transaction(file_store: Store) -> None:
    with file_store.write() as session:
        session.execute(text("CREATE TABLE of_mine (value FLOAT)"))
        session.execute(text("INSERT INTO of_mine VALUES (0.1), (NULL)"))
        rows = driver_rows(session.connection(), "SELECT value, :n FROM of_mine ORDER BY 1", {"n": 3})
        assert rows == [(None, 3), (0.1, 3)]


def test_an_error_is_one_that_the_store_puts_in_words(file_store: Store) -> None:
    with file_store.read() as session, pytest.raises(DBAPIError, match="no such table: nowhere"):
        driver_rows(session.connection(), "SELECT 1 FROM nowhere", {})

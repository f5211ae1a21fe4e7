"""Two questions at a time of one state: PostgreSQL answers one while we work on the answer to the other."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from sqlalchemy import Engine
from sqlalchemy.orm import Session

T = TypeVar("T")


@contextmanager
def asked_ahead(session: Session, question: Callable[[Session], T]) -> Iterator[Callable[[], T]]:
    """What gives the answer to `question`, or raises what it did, is to be called inside.

    PostgreSQL is asked over another connection, unless `session` writes: what it wrote, no other would see.
    SQLite works in our own process, and is asked when the answer is wanted.
    """
    connection = session.connection()
    reads = not connection.get_execution_options().get("headcount_writes")
    if connection.dialect.name == "sqlite" or not reads:
        yield lambda: question(session)
        return
    state: str = connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()
    with ThreadPoolExecutor(1) as other:
        answer = other.submit(_ask, connection.engine, state, question)
        yield answer.result


def _ask(engine: Engine, state: str, question: Callable[[Session], T]) -> T:
    with engine.begin() as connection, Session(connection, expire_on_commit=False) as session:
        driver: Any = connection.connection.driver_connection
        # never twice the same, so that preparing it would only take the place of another
        driver.execute(f"SET TRANSACTION SNAPSHOT '{state}'", prepare=False)
        return question(session)

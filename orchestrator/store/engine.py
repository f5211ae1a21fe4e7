"""The way into the store: short transactions on SQLite or PostgreSQL, one writer at a time on both."""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, DisconnectionError
from sqlalchemy.orm import Session

from headcount.trainer.errors import UserError

BUSY_SECONDS = 30
"""How long a writer waits for another."""

CONNECTIONS = 20
"""Kept open at most, each opened when it is first needed: a thread of the service never waits for one."""

_WRITERS_LOCK = 0x4865616463
"""The key of PostgreSQL's advisory lock that every writer holds, so that event ids follow commits."""


class Store:
    """A store at the newest schema. Sessions are short; nothing is written outside `write`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writer = engine.execution_options(headcount_writes=True)
        self._looker = engine.execution_options(headcount_looks=True)

    @contextmanager
    def read(self) -> Iterator[Session]:
        """A session over one consistent state; never waits for a writer.

        It ends with a commit of nothing: after a rollback psycopg forgets what it has prepared, and every
        statement is parsed and planned anew.
        """
        with (
            clear_errors(self.engine),
            self.engine.begin() as connection,
            Session(connection, expire_on_commit=False) as session,
        ):
            yield session

    @contextmanager
    def look(self) -> Iterator[Session]:
        """A session for questions that have nothing to do with each other.

        On PostgreSQL each is asked of the newest state, and is one round trip.
        """
        with (
            clear_errors(self.engine),
            self._looker.begin() as connection,
            Session(connection, expire_on_commit=False) as session,
        ):
            yield session

    @contextmanager
    def write(self, *, flushed: bool = True) -> Iterator[Session]:
        """A session that is alone in writing; commits at the end, or rolls back on an error.

        Without `flushed`, PostgreSQL does not wait for its disk, and others may write meanwhile: until a
        `Flusher` has waited, what was written may be gone after a crash of the server. It is for what can be
        said again.
        """
        writer = self._writer if flushed else self._writer.execution_options(headcount_flushed=False)
        begun = Session(writer, expire_on_commit=False)
        with clear_errors(self.engine), begun as session, session.begin():
            session.connection()  # begins: whatever is asked first is asked with the lock held
            yield session

    @property
    def file(self) -> Path | None:
        """The database file of SQLite; none on PostgreSQL."""
        return _file_of(self.engine)

    def close(self) -> None:
        self.engine.dispose()


def new_engine(url: str) -> Engine:
    """What is set, begun and refused on its connections is as `Store` needs it."""
    if make_url(url).get_backend_name() != "sqlite":
        engine = create_engine(url, pool_size=CONNECTIONS, connect_args={"connect_timeout": 10})
        event.listen(engine, "do_connect", _connect_postgres)
        event.listen(engine, "connect", _set_up_postgres)
        event.listen(engine, "checkout", _refuse_closed)
        event.listen(engine, "begin", _begin_postgres)
        return engine
    engine = create_engine(
        url, pool_size=CONNECTIONS, connect_args={"timeout": BUSY_SECONDS, "check_same_thread": False}
    )
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself
    cursor = connection.cursor()
    # the file is not mapped: SQLite unmaps all of it at every change by another process, and a table of 1,000
    # jobs after one takes half as long again for its pages to be mapped anew
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _connect_postgres(dialect: Dialect, record: Any, places: Any, options: Any) -> Any:
    from headcount.orchestrator.store import round_trips  # PostgreSQL's driver, which SQLite can do without

    return round_trips.Connection.connect(*places, **options)


def _set_up_postgres(connection: Any, record: Any) -> None:
    """Results are in memory, where an index costs no seek; queries are shorter than compiling them."""
    with connection.cursor() as cursor:
        cursor.execute("SET random_page_cost = 1.1; SET jit = off")
    connection.commit()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("headcount_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _refuse_closed(connection: Any, record: Any, proxy: Any) -> None:
    """Another is opened instead of a connection that the server has closed: between transactions it tells
    nothing else. To ask it whether it is there would double the way of a short question."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if waiting.poll(0):
        raise DisconnectionError


def _begin_postgres(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") == "AUTOCOMMIT":
        return
    driver: Any = connection.connection.driver_connection
    if not driver.autocommit:
        driver.autocommit = True  # or the driver would begin by itself, with a message of its own
    if options.get("headcount_looks"):
        return
    if not options.get("headcount_writes"):
        driver.begin_with_next(_BEGIN_READING)
    elif options.get("headcount_flushed", True):
        driver.begin_with_next("BEGIN", _LOCK)
    else:
        driver.begin_with_next("BEGIN", "SET LOCAL synchronous_commit = off", _LOCK)


_BEGIN_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_LOCK = f"SELECT pg_advisory_xact_lock({_WRITERS_LOCK})"


def _file_of(engine: Engine) -> Path | None:
    database = engine.url.database
    return Path(database) if engine.url.get_backend_name() == "sqlite" and database else None


class StoreUnavailable(UserError):
    """The store does not answer now; the same call may succeed later."""


@contextmanager
def clear_errors(engine: Engine) -> Iterator[None]:
    """What the user can mend, in plain words; everything else as it was raised."""
    try:
        yield
    except DBAPIError as error:
        words = str(error.orig)
        where = str(_file_of(engine) or engine.url.render_as_string(hide_password=True))
        for sign, problem in _MENDABLE.items():
            if sign in words:
                raise UserError(f"the store {where} {problem}, or {_ELSEWHERE}") from error
        if error.connection_invalidated or any(sign in words for sign in _PASSING):
            reason = words.strip().splitlines()[0]
            raise StoreUnavailable(f"the store {where} does not answer: {reason}") from error
        raise


_ELSEWHERE = "set HEADCOUNT_HOME or HEADCOUNT_DATABASE_URL to another place"

_MENDABLE = {
    "readonly database": "is read-only: make it writable",
    "unable to open database file": "cannot be opened or made: make its folder writable",
    "file is not a database": "is not a database: move the file away",
    "disk is full": "has no space left on its disk: free some",
    "disk I/O error": "cannot be written by its disk: free some space",
}

_PASSING = (
    "database is locked",
    "connection failed",
    "connection to server",
    "connection is lost",
    "connection timeout",
    "the connection is closed",
    "server closed the connection",
    "terminating connection",
    "the database system is",
    "deadlock detected",
    "could not serialize",
)

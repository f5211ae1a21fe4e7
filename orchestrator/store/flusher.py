"""Waiting until PostgreSQL has on its disk what was written without waiting for it."""

from sqlalchemy import Connection

from headcount.orchestrator.store.engine import Store, clear_errors

_SOMETHING = "SELECT pg_logical_emit_message(true, 'headcount', '')"
"""A commit that does wait takes along all that were made before it."""


class Flusher:
    """One connection, open from before the first write that it is to keep.

    A server that crashed and came back has forgotten such a write, and would gladly flush for a new
    connection. But no connection outlives a crash: over the same one, a flush is of all that was written
    since it was opened. (A pooler in between has to keep to one connection too, as PgBouncer's session mode
    does.)
    """

    def __init__(self, store: Store) -> None:
        self._engine = store.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None

    def open(self) -> None:
        """Before the write. Raises `StoreUnavailable`."""
        if self._connection is None:
            with clear_errors(self._engine):
                self._connection = self._engine.connect()

    def flush(self) -> None:
        """Wait for the disk. Raises `StoreUnavailable`, after which nothing is known of what was written."""
        assert self._connection is not None, "opened only after the write"
        with clear_errors(self._engine):
            self._connection.exec_driver_sql(_SOMETHING)

    def close(self) -> None:
        """The next writes need it opened again."""
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None

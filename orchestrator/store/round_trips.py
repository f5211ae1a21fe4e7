"""Fewer round trips to PostgreSQL: a transaction begins with its first statement and ends with its last."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import psycopg


class Connection(psycopg.Connection[Any]):
    """What needs no answer by itself goes to the server with what follows it.

    Each round trip wakes the server and then us: on a machine that computes, either may have to wait for a
    core.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cursor_factory = _Cursor
        self._opening: tuple[str, ...] = ()
        self._open: ExitStack | None = None
        """The pipeline whose answers are still to come."""
        self._gathers = False

    def begin_with_next(self, *statements: str) -> None:
        """Let the next statement go behind these. Where none follows, they are not sent at all."""
        self._opening = statements

    @contextmanager
    def sent_together(self) -> Iterator[None]:
        """Statements inside are answered with the one that follows, or with the commit: nothing may be asked
        of their results, and the first error of any is raised there."""
        if self._open is None:
            self._open = ExitStack()
            self._open.enter_context(self.pipeline())
        self._gathers = True
        try:
            yield
        finally:
            self._gathers = False

    @contextmanager
    def round_trip(self) -> Iterator[None]:
        """Around one statement: what was held back goes with it."""
        if self._gathers:
            self._send_opening()
            yield
        elif self._opening or self._open is not None:
            with self._last_of_pipeline():
                self._send_opening()
                yield
        else:
            yield

    def commit(self) -> None:
        """Also where nothing was asked: then there is nothing to send."""
        self._opening = ()
        if self._open is None:
            super().commit()
            return
        with self._last_of_pipeline():
            psycopg.Cursor(self).execute("COMMIT")

    def rollback(self) -> None:
        """What was sent and not answered yet is undone with the rest."""
        self._opening = ()
        if self._open is not None:
            with suppress(psycopg.Error), self._last_of_pipeline():
                pass
        super().rollback()

    def cursor(self, *args: Any, **options: Any) -> Any:
        """One with a name is the server's, and needs the transaction begun."""
        if args or "name" in options:
            with self.round_trip():
                pass
        return super().cursor(*args, **options)

    def _last_of_pipeline(self) -> ExitStack:
        """Ends the pipeline, one of its own where none is open, with all answers."""
        pipeline, self._open = self._open, None
        if pipeline is None:
            pipeline = ExitStack()
            pipeline.enter_context(self.pipeline())
        return pipeline

    def _send_opening(self) -> None:
        statements, self._opening = self._opening, ()
        for statement in statements:
            psycopg.Cursor(self).execute(statement)


class _Cursor(psycopg.Cursor[Any]):
    """Of a `Connection`."""

    def execute(self, *args: Any, **options: Any) -> "_Cursor":
        assert isinstance(self.connection, Connection)
        with self.connection.round_trip():
            return super().execute(*args, **options)

    def copy(self, *args: Any, **options: Any) -> Any:
        assert isinstance(self.connection, Connection)
        with self.connection.round_trip():
            pass  # a pipeline can copy nothing
        return super().copy(*args, **options)

    def executemany(self, *args: Any, **options: Any) -> None:
        assert isinstance(self.connection, Connection)
        with self.connection.round_trip():
            super().executemany(*args, **options)

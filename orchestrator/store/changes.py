"""What a transaction is to write about jobs at work: gathered first, then sent to the store together.

Jobs end, tell and begin by the hundred in one transaction of the scheduler: so it takes as many statements as
there are kinds of rows, and not as many as there are jobs.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Delete, Table
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import event_row
from headcount.orchestrator.store.models import Event, Sweep
from headcount.orchestrator.store.sending import Write, sent_together, write_all

Values = Mapping[str, Any]


class Changes:
    """Rows in the order in which they are written: what is stale goes first, events come last."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._forget()

    def _forget(self) -> None:
        self._stale: dict[Delete, list[Values]] = {}
        self._fresh: dict[Table, list[Values]] = {}
        self._set: dict[tuple[Table, Any], dict[str, Any]] = {}
        self._events: list[Values] = []
        self._versions: dict[int, bool] = {}
        """Sweeps whose version rises; whether that of their tables does too."""

    def delete(self, statement: Delete, values: Values) -> None:
        """`statement` is the same for all rows of its kind; `values` are its parameters."""
        self._stale.setdefault(statement, []).append(values)

    def insert(self, table: Table, row: Values) -> None:
        """Rows of a table all have the same columns."""
        self._fresh.setdefault(table, []).append(row)

    def set(self, table: Table, key: Any, **values: Any) -> None:
        """Columns of the row with this id."""
        self._set.setdefault((table, key), {}).update(values)

    def tell(self, sweeps: Collection[int], job_id: str, kind: str, detail: Values) -> None:
        """An event for every one of the job's sweeps; their versions rise, and those of their tables."""
        self._events += [event_row(sweep, job_id, kind, detail) for sweep in sweeps]
        self.touch(sweeps)

    def tell_of_running(self, sweeps: Collection[int], job_id: str, kind: str, detail: Values) -> None:
        """As `tell`, for what a running job tells again and again: the tables stay as they are."""
        self._events += [event_row(sweep, job_id, kind, detail) for sweep in sweeps]
        self.touch_running(sweeps)

    def touch(self, sweeps: Collection[int]) -> None:
        """What shows in the tables of these sweeps changes."""
        self._versions.update(dict.fromkeys(sweeps, True))

    def touch_running(self, sweeps: Collection[int]) -> None:
        """What these sweeps show changes, but not their tables."""
        self._versions = dict.fromkeys(sweeps, False) | self._versions

    def write(self) -> None:
        """Write what was gathered so far. What the session holds of it is read anew afterwards."""
        session = self.session
        session.flush()
        connection = session.connection()
        with sent_together(session):
            for stale, rows in self._stale.items():
                connection.execute(stale, rows)
            write_all(session, self._writes())
        session.expire_all()
        self._forget()

    def _writes(self) -> list[Write]:
        """Rows of which the same columns are set are together."""
        alike: dict[tuple[Table, tuple[str, ...]], list[Values]] = defaultdict(list)
        for (table, key), values in self._set.items():
            alike[table, tuple(sorted(values))].append({"id": key, **values})
        raised = [{"id": s, "version": 1, "results_version": int(t)} for s, t in self._versions.items()]
        return [
            *(Write("insert", table, rows) for table, rows in self._fresh.items()),
            *(Write("set", table, rows) for (table, _), rows in alike.items()),
            Write("insert", _EVENT, self._events),
            Write("add", _SWEEP, raised),
        ]


@contextmanager
def gathered(session: Session) -> Iterator[Changes]:
    """Changes that are written at the end."""
    changes = Changes(session)
    yield changes
    changes.write()


_EVENT: Any = Event.__table__
_SWEEP: Any = Sweep.__table__

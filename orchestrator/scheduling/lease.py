"""One scheduler at a time. A holder proves itself by the lease's epoch in every write.

On PostgreSQL the lease is a row that its holder renews, by the database's clock. On SQLite it is a lock on a
file beside the database, which the kernel gives back when its holder dies; the row only carries the epoch.
"""

import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.engine import Store, StoreUnavailable
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Lease as LeaseRow
from headcount.trainer.errors import UserError

log = logging.getLogger(__name__)

LEASE_SECONDS = 30
STAND_BY_SECONDS = 1.0
"""Between two looks of a scheduler that waits for its turn."""

NAME = "scheduler"


_LEASE: Any = LeaseRow.__table__
_EPOCH = select(_LEASE.c.epoch).where(_LEASE.c.name == NAME)


class LeaseHeld(UserError):
    """Another scheduler is at work."""

    def __init__(self, holder: str) -> None:
        super().__init__(
            f"another scheduler is at work: {holder}; it serves every sweep of this store. "
            "Follow it with 'headcount run', or stop it first"
        )
        self.holder = holder


class LeaseLost(Exception):
    """Another scheduler has taken over; this one must write no more."""


class Lease:
    """The right to schedule, from `acquire` to `release`."""

    def __init__(self, store: Store, epoch: int, file: IO[bytes] | None) -> None:
        self.store = store
        self.epoch = epoch
        self._file = file

    @classmethod
    def acquire(cls, store: Store) -> "Lease":
        """Take the lease under a new epoch. Raises `LeaseHeld` while another holds it."""
        file = _lock(store)
        try:
            with store.write() as session:
                row = session.get(LeaseRow, NAME)
                if row is None:
                    row = LeaseRow(name=NAME, epoch=0, holder="", expires=now())
                    session.add(row)
                elif file is None and row.expires > _clock(session):
                    raise LeaseHeld(row.holder)
                row.epoch += 1
                row.holder = f"process {os.getpid()} on {socket.gethostname()}, since {now():%H:%M:%S} UTC"
                row.expires = _clock(session) + timedelta(seconds=LEASE_SECONDS)
                return cls(store, row.epoch, file)
        except BaseException:
            if file is not None:
                file.close()
            raise

    @contextmanager
    def write(self, *, flushed: bool = True) -> Iterator[Session]:
        """A write to the store, as its own, that only the holder can make. Raises `LeaseLost`."""
        with self.store.write(flushed=flushed) as session:
            if session.connection().scalar(_EPOCH) != self.epoch:
                raise LeaseLost
            yield session

    def renew(self) -> None:
        """Hold on for another `LEASE_SECONDS`. Raises `LeaseLost`."""
        with self.write() as session:
            self._set_expiry(session, LEASE_SECONDS)

    def release(self) -> None:
        """Let another take it at once."""
        with self.store.write() as session:
            self._set_expiry(session, 0)
        if self._file is not None:
            self._file.close()

    def _set_expiry(self, session: Session, seconds: float) -> None:
        expires = _clock(session) + timedelta(seconds=seconds)
        session.execute(
            update(LeaseRow)
            .where(LeaseRow.name == NAME, LeaseRow.epoch == self.epoch)
            .values(expires=expires)
        )


def await_lease(store: Store, is_over: Callable[[], bool]) -> Lease | None:
    """Wait until nobody schedules, and take the lease; none once `is_over`. A store that is away is awaited
    too."""
    told = ""
    while not is_over():
        try:
            holder = current_holder(store)
            if holder is None:
                return Lease.acquire(store)
        except LeaseHeld as error:  # another that waited was faster
            holder = error.holder
        except StoreUnavailable as error:
            holder = str(error)
        if holder != told:
            log.info("standing by: %s", holder)
            told = holder
        time.sleep(STAND_BY_SECONDS)
    return None


def current_holder(store: Store) -> str | None:
    """Who schedules now, in words; none when nobody does."""
    with store.read() as session:
        row = session.get(LeaseRow, NAME)
        if row is None:
            return None
        if store.file is None:
            return row.holder if row.expires > _clock(session) else None
    try:
        with open(_lock_path(store.file), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return row.holder
    return None


def _lock(store: Store) -> IO[bytes] | None:
    """SQLite's lock file, locked; none on PostgreSQL."""
    if store.file is None:
        return None
    file = open(_lock_path(store.file), "ab")  # noqa: SIM115 (held for the lease's life)
    for patience in (0.1, 0.2, 0.0):  # a `current_holder` may be looking
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return file
        except BlockingIOError:
            time.sleep(patience)
    file.close()
    with store.read() as session:
        row = session.get(LeaseRow, NAME)
    raise LeaseHeld(row.holder if row else "it has just started")


def _lock_path(database: Path) -> Path:
    return database.with_name(f"{database.name}.scheduler")


def _clock(session: Session) -> datetime:
    """The clock that all contenders share: the database's, or this machine's for SQLite."""
    if session.get_bind().dialect.name == "sqlite":
        return now()
    moment: datetime | None = session.scalar(select(func.clock_timestamp()))
    assert moment is not None
    return moment

"""The loop that makes the cluster do what the store wants. It may die at any moment: the next one goes on.

Nothing is kept here that cannot be found again: which jobs are to run is in the store, which slots are alive
Ray knows, and every slot keeps its attempt's events until they are stored.
"""

import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from headcount.orchestrator.cluster import Cluster, node_id
from headcount.orchestrator.lease import LEASE_SECONDS, Lease
from headcount.orchestrator.store.engine import StoreUnavailable
from headcount.orchestrator.store.models import Attempt, Job
from headcount.orchestrator.store.queue import next_jobs
from headcount.orchestrator.store.recording import Record, record_events
from headcount.orchestrator.store.transitions import (
    Work,
    dispatch,
    end_attempt,
    open_attempts,
    work_of,
)
from headcount.orchestrator.waits import Waits
from headcount.trainer.errors import UserError

log = logging.getLogger(__name__)

ROUND_SECONDS = 0.25
"""A round of the loop when nothing happens; a new wish waits no longer."""

FITTING_SECONDS = 1.0
LISTEN_SECONDS = 10.0
"""How long a slot holds a question for events that it cannot answer yet."""

CANCEL_SECONDS = 10.0
"""After this a job that was asked to stop loses its slot."""

STOP_SECONDS = 30.0
IDLE_SECONDS = 60.0
SILENT_SECONDS = 60.0
"""A slot that cannot be reached for this long is lost, whatever Ray hopes."""

MOST_FAILED_STARTS = 3


@dataclass
class _Seat:
    """A slot as the scheduler sees it."""

    name: str
    handle: Any
    where: str = ""
    """Its node; empty while it starts."""
    work: Work | None = None
    stored: int = -1
    """Number of the last event stored of `work`."""
    asked: Any = None
    """The answer that is awaited."""
    since: float = 0.0
    """When it became idle, or was asked to stop, or fell silent."""
    stopping: bool = False
    silent: bool = False


class Scheduler:
    """Reconciles the store with the cluster, a round at a time, as the lease's holder."""

    def __init__(self, lease: Lease, cluster: Cluster, waits: Waits) -> None:
        self.lease, self.cluster = lease, cluster
        self.store = lease.store
        self.seats: dict[str, _Seat] = {}
        self.waits = waits
        self._renewed = self._fitted = 0.0
        self._failed_starts = 0

    def run(self, ended: Callable[[], bool]) -> None:
        """Adopt what is alive, then work until `ended`. Raises `LeaseLost` and `UserError`."""
        self._adopt()
        while not ended():
            try:
                self._round()
            except StoreUnavailable as error:
                log.warning("%s; trying again", error)
                time.sleep(1)

    def stop(self) -> None:
        """Have every running job write a checkpoint and go back to the queue; then let all slots go."""
        self._stop_cancelled()
        for seat in self._busy():
            if not seat.stopping:
                self._ask_to_stop(seat, "preempted")
        deadline = time.monotonic() + STOP_SECONDS
        while self._busy() and time.monotonic() < deadline:
            self._listen()
        for seat in self._busy():
            self._lose(seat, "preempted", "did not stop in time")
        self.dismiss_all()

    def dismiss_all(self) -> None:
        """Let all slots go at once; what they ran is settled as lost by the next scheduler."""
        for seat in list(self.seats.values()):
            self._dismiss(seat)

    def _round(self) -> None:
        if time.monotonic() - self._renewed > LEASE_SECONDS / 3:
            self.lease.renew()
            self._renewed = time.monotonic()
        self._stop_cancelled()
        if time.monotonic() - self._fitted > FITTING_SECONDS:
            self._fit_slots()
            self._fitted = time.monotonic()
        self._dispatch()
        self._listen()

    def _adopt(self) -> None:
        """Take over the slots of an earlier scheduler, and settle the attempts whose slots are gone."""
        live = self.cluster.live_slots()
        nodes = self.cluster.live_nodes()
        with self.lease.write() as session:
            for attempt in open_attempts(session):
                handle = live.pop(attempt.slot, None)
                if handle is None:
                    cause = "slot_lost" if node_id(attempt.node) in nodes else "node_lost"
                    end_attempt(session, attempt, cause, "gone while no scheduler was at work")
                    log.info("attempt %d of %s: %s", attempt.number, attempt.job_id[:8], cause)
                    continue
                seat = _Seat(attempt.slot, handle, attempt.node, work_of(session, attempt))
                seat.stored = attempt.last_event
                self.seats[seat.name] = seat
                log.info("adopted %s with attempt %d of %s", seat.name, attempt.number, attempt.job_id[:8])
        for handle in live.values():
            self.cluster.kill(handle)  # it may hold a job that was settled without it
        for seat in self.seats.values():
            assert seat.work is not None
            # a slot that never got the work takes it now; one that has it tells its events again
            seat.asked = seat.handle.start.remote(seat.work, LISTEN_SECONDS)

    def _stop_cancelled(self) -> None:
        if not self._busy():
            return
        with self.store.read() as session:
            cancelling = set(session.scalars(select(Job.id).where(Job.state == "cancelling")))
        for seat in self._busy():
            assert seat.work is not None
            if seat.work.job_id in cancelling and not seat.stopping:
                self._ask_to_stop(seat, "cancelled")
            elif seat.stopping and time.monotonic() - seat.since > CANCEL_SECONDS:
                self._lose(seat, "cancelled", "stopped by force")

    def _fit_slots(self) -> None:
        """A slot for every job that could run, if the cluster holds it; idle ones leave after a while."""
        size, uses_gpu = self.cluster.size()
        with self.store.read() as session:
            queued = len(next_jobs(session, size))
        for _ in range(min(size, len(self._busy()) + queued) - len(self.seats)):
            name = f"slot-{uuid.uuid4().hex[:8]}"
            seat = _Seat(name, self.cluster.create(name, uses_gpu))
            seat.asked = seat.handle.where.remote()
            self.seats[name] = seat
        for seat in list(self.seats.values()):
            idle = seat.where and seat.work is None and time.monotonic() - seat.since > IDLE_SECONDS
            if idle and not queued:
                self._dismiss(seat)

    def _dispatch(self) -> None:
        """Give every free slot the job whose turn it is."""
        free = [seat for seat in self.seats.values() if seat.where and seat.work is None]
        if not free:
            return
        with self.store.read() as session:
            if not next_jobs(session, 1):
                self.waits.nothing_queued()
                return
        given: list[tuple[_Seat, Work]] = []
        with self.lease.write() as session:
            for seat, job_id in zip(free, next_jobs(session, len(free)), strict=False):
                if work := dispatch(session, self.lease.epoch, job_id, seat.name, seat.where):
                    given.append((seat, work))
        for seat, work in given:
            self.waits.dispatched(seat.since)
            seat.work, seat.stored, seat.stopping = work, -1, False
            seat.asked = seat.handle.start.remote(work, LISTEN_SECONDS)
            told = {"job": work.job_id, "attempt": work.number, "slot": seat.name, "node": seat.where}
            log.info("attempt %d of %s on %s", work.number, work.job_id[:8], seat.name, extra=told)

    def _listen(self) -> None:
        """Store what the slots have told, in one transaction, and ask on."""
        pending = {seat.asked: seat for seat in self.seats.values() if seat.asked is not None}
        told: list[tuple[_Seat, int, list[Record]]] = []
        for answer in self.cluster.ready(pending, ROUND_SECONDS):
            seat = pending[answer]
            try:
                value = self.cluster.get(answer)
            except Exception as error:
                self._unheard(seat, error)
                continue
            seat.silent = False
            if seat.work is None:
                seat.where, seat.asked, seat.since = value, None, time.monotonic()
                self._failed_starts = 0
            else:
                told.append((seat, *value))
        if not told:
            return
        with self.lease.write() as session:
            for seat, first, records in told:
                assert seat.work is not None
                record_events(session, seat.work.attempt_id, first, records)
        for seat, first, records in told:
            self._heard(seat, first, records)

    def _heard(self, seat: _Seat, first: int, records: list[Record]) -> None:
        """After an answer is stored: ask on, or let the slot take the next job."""
        assert seat.work is not None
        seat.stored = max(seat.stored, first + len(records) - 1)
        if not records or records[-1]["kind"] != "ended":
            seat.asked = seat.handle.events.remote(seat.work.attempt_id, seat.stored, LISTEN_SECONDS)
            return
        told = {"job": seat.work.job_id, "attempt": seat.work.number, "cause": records[-1]["cause"]}
        log.info("%s of %s", records[-1]["cause"], seat.work.job_id[:8], extra=told)
        seat.work, seat.asked, seat.since = None, None, time.monotonic()
        if not records[-1]["reusable"]:
            self._dismiss(seat)

    def _unheard(self, seat: _Seat, error: Exception) -> None:
        """A slot that did not answer is asked again while it may be alive."""
        lost = self.cluster.why_lost(error, seat.where)
        if lost is None and not seat.silent:
            seat.silent, seat.since = True, time.monotonic()
        if lost is None and time.monotonic() - seat.since < SILENT_SECONDS:
            if seat.work is None:
                seat.asked = seat.handle.where.remote()
            else:
                seat.asked = seat.handle.start.remote(seat.work, LISTEN_SECONDS)
            return
        cause, message = lost or ("slot_lost", f"{seat.name} could not be reached: {error}")
        if not seat.where:
            self._failed_starts += 1
            if self._failed_starts >= MOST_FAILED_STARTS:
                raise UserError(f"slots cannot start: {message}")
        self._lose(seat, cause, message)

    def _lose(self, seat: _Seat, cause: str, message: str) -> None:
        """End a slot, and its attempt with it."""
        log.info("%s: %s: %s", seat.name, cause, message.splitlines()[0])
        if seat.work is not None:
            with self.lease.write() as session:
                end_attempt(session, session.get_one(Attempt, seat.work.attempt_id), cause, message)
        self._dismiss(seat)

    def _dismiss(self, seat: _Seat) -> None:
        self.cluster.kill(seat.handle)
        self.seats.pop(seat.name, None)

    def _ask_to_stop(self, seat: _Seat, cause: str) -> None:
        assert seat.work is not None
        seat.handle.stop.remote(seat.work.attempt_id, cause)
        seat.stopping, seat.since = True, time.monotonic()

    def _busy(self) -> list[_Seat]:
        return [seat for seat in self.seats.values() if seat.work is not None]

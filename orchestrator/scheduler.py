"""The loop that makes the cluster do what the store wants. It may die at any moment: the next one goes on.

Nothing is kept here that cannot be found again: which jobs are to run is in the store, which slots are alive
Ray knows, and every slot keeps its attempt's events until they are stored.
"""

import logging
import time
import uuid
from collections.abc import Callable

from sqlalchemy import select

from headcount.orchestrator.cluster import Cluster, node_id
from headcount.orchestrator.lacking import Lacking
from headcount.orchestrator.lease import LEASE_SECONDS, Lease
from headcount.orchestrator.nodes import Nodes
from headcount.orchestrator.packing import share_on
from headcount.orchestrator.placement import PROCESSORS, Making, place
from headcount.orchestrator.seats import Seat
from headcount.orchestrator.slot import Place
from headcount.orchestrator.store.engine import StoreUnavailable
from headcount.orchestrator.store.memory import RESERVED, memory_kind, recorded_peaks
from headcount.orchestrator.store.models import Attempt, Job
from headcount.orchestrator.store.queue import Queue
from headcount.orchestrator.store.recording import Record, record_events
from headcount.orchestrator.store.transitions import (
    Work,
    dispatch,
    end_attempt,
    open_attempts,
    work_of,
)
from headcount.orchestrator.turns import Turn
from headcount.orchestrator.waits import Waits
from headcount.orchestrator.warden import version_refusal
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

DRAIN_SECONDS = 2.0
"""Before a node's last moment: what has not stopped by then is given up in good order."""

MOST_A_CARD = 8


class Scheduler:
    """Reconciles the store with the cluster, a round at a time, as the lease's holder."""

    def __init__(self, lease: Lease, cluster: Cluster, waits: Waits) -> None:
        self.lease, self.cluster = lease, cluster
        self.store = lease.store
        self.seats: dict[str, Seat] = {}
        self.waits = waits
        self.nodes = Nodes(cluster)
        self.lacking = Lacking(lease, cluster, self.nodes)
        self.queue = Queue()
        self._with_gpus = False
        self._peaks: dict[str, float] = {}
        self._renewed = self._fitted = 0.0

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
            if seat.stop_by is None:
                self._ask_to_stop(seat, "preempted", STOP_SECONDS)
        deadline = time.monotonic() + STOP_SECONDS
        while self._busy() and time.monotonic() < deadline:
            self._listen()
        for seat in self._busy():
            self._lose(seat, "preempted", "did not stop in time")
        self.dismiss_all()

    def dismiss_all(self) -> None:
        """Let all slots go at once; what they ran is settled as lost by the next scheduler."""
        self.lacking.withdraw()
        self.nodes.clear_marks()
        for seat in list(self.seats.values()):
            self._dismiss(seat)

    def _round(self) -> None:
        if time.monotonic() - self._renewed > LEASE_SECONDS / 3:
            self.lease.renew()
            self._renewed = time.monotonic()
        self._stop_cancelled()
        self.nodes.refresh(self.seats)
        self._stop_drained()
        self._give_up_hanging()
        self._place()
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
                seat = Seat(attempt.slot, handle, share=attempt.share or 1.0, where=attempt.node)
                seat.work, seat.stored = work_of(session, attempt), attempt.last_event
                self.seats[seat.name] = seat
                log.info("adopted %s with attempt %d of %s", seat.name, attempt.number, attempt.job_id[:8])
        for handle in live.values():
            self.cluster.kill(handle)  # it may hold a job that was settled without it
        for seat in self.seats.values():
            self._ask_where(seat)

    def _stop_cancelled(self) -> None:
        if not self._busy():
            return
        with self.store.read() as session:
            cancelling = set(session.scalars(select(Job.id).where(Job.state == "cancelling")))
        for seat in self._busy():
            assert seat.work is not None
            if seat.work.job_id in cancelling and seat.stop_by is None:
                self._ask_to_stop(seat, "cancelled", CANCEL_SECONDS)
        for seat in self._busy():
            if seat.stop_by is not None and time.monotonic() > seat.stop_by:
                self._lose(seat, seat.stop_cause, "stopped by force")

    def _stop_drained(self) -> None:
        """Have what runs on nodes that are about to go write a checkpoint, and go on elsewhere."""
        for seat in list(self.seats.values()):
            node = node_id(seat.where)
            if node not in self.nodes.draining or seat.stop_by is not None:
                continue
            if seat.work is None:
                self._dismiss(seat)
                continue
            left = self.nodes.draining[node]
            seconds = STOP_SECONDS if left is None else min(STOP_SECONDS, left - DRAIN_SECONDS)
            self._ask_to_stop(seat, "preempted", max(1.0, seconds))

    def _give_up_hanging(self) -> None:
        for seat in self._busy():
            if verdict := seat.pulse.verdict(seat.heard_at, time.monotonic()):
                self._lose(seat, *verdict)

    def _place(self) -> None:
        """Give free slots the jobs whose turn it is, and see to it that there are slots of the right kind."""
        timed = time.monotonic() - self._fitted > FITTING_SECONDS
        if timed:
            self._let_idle_go()
        if not (timed or any(seat.is_free for seat in self.seats.values())):
            return
        if self.nodes.with_gpus != self._with_gpus:
            self._with_gpus, self.queue = self.nodes.with_gpus, Queue(by_memory=True)
            with self.store.read() as session:
                self._peaks = recorded_peaks(session)
        devices = self.nodes.devices(self.seats.values())
        with self.store.read() as session:
            self.queue.read(session)
            most = MOST_A_CARD * (len(devices) if self._with_gpus else sum(int(d.room) for d in devices))
            turns = self.queue.turns(session)
            held = [seat.held for seat in self.seats.values()]
            decisions = place(turns, devices, held, lambda t, d: share_on(t, d, self._peaks), most + 8)
        if not (decisions.give or decisions.make or decisions.wait or decisions.nowhere):
            self.waits.nothing_queued()
        for name in decisions.leave:
            self._dismiss(self.seats[name])
        for making in decisions.make:
            self._make(making)
        self._dispatch(decisions.give)
        if timed:
            self._fitted = time.monotonic()
            self.lacking.tell(decisions, self.seats.values(), self._with_gpus)

    def _let_idle_go(self) -> None:
        for seat in list(self.seats.values()):
            if seat.is_free and time.monotonic() - seat.since > IDLE_SECONDS:
                self._dismiss(seat)

    def _make(self, making: Making) -> None:
        name = f"slot-{uuid.uuid4().hex[:8]}"
        handle = self.cluster.create(name, making, self._with_gpus)
        if handle is not None:
            seat = self.seats[name] = Seat(name, handle, making.cards, making.share)
            self._ask_where(seat)

    def _dispatch(self, pairs: list[tuple[str, Turn]]) -> None:
        if not pairs:
            return
        given: list[tuple[Seat, Work]] = []
        with self.lease.write() as session:
            for name, turn in pairs:
                seat = self.seats[name]
                share = len(seat.cards) * seat.share if self._with_gpus else None
                work = dispatch(session, self.lease.epoch, turn.job_id, seat.name, seat.where, share)
                self.queue.took(turn.job_id)
                if work:
                    given.append((seat, work))
        for seat, work in given:
            self.waits.dispatched(seat.since)
            seat.work, seat.stored, seat.stop_by = work, -1, None
            seat.heard_at = time.monotonic()
            seat.asked = seat.handle.start.remote(work, LISTEN_SECONDS)
            told = {"job": work.job_id, "attempt": work.number, "slot": seat.name, "node": seat.where}
            log.info("attempt %d of %s on %s", work.number, work.job_id[:8], seat.name, extra=told)

    def _listen(self) -> None:
        """Store what the slots have told, in one transaction, and ask on."""
        pending = {seat.asked: seat for seat in self.seats.values() if seat.asked is not None}
        told: list[tuple[Seat, int, list[Record]]] = []
        for answer in self.cluster.ready(pending, ROUND_SECONDS):
            seat = pending[answer]
            try:
                value = self.cluster.get(answer)
            except Exception as error:
                self._unheard(seat, error)
                continue
            seat.silent = False
            if seat.asked_where:
                self._settled_in(seat, value)
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

    def _settled_in(self, seat: Seat, place: Place) -> None:
        """A slot has told where it is; an adopted one goes on with its attempt."""
        seat.where, seat.pid, seat.since = place.where, place.pid, time.monotonic()
        seat.asked, seat.asked_where = None, False
        node = node_id(place.where)
        if len(place.cards) == len(seat.cards) or seat.work is not None:
            seat.cards = tuple((node, card) for card in place.cards) or ((node, PROCESSORS),)
        self.nodes.failed.pop(node, None)
        if words := version_refusal(place.version, place.numerics):
            self.nodes.refused[node] = words
            if seat.work is None:
                self._dismiss(seat)
                return
        if seat.work is not None:
            # a slot that never got the work takes it now; one that has it tells its events again
            seat.asked = seat.handle.start.remote(seat.work, LISTEN_SECONDS)

    def _heard(self, seat: Seat, first: int, records: list[Record]) -> None:
        """After an answer is stored: ask on, or let the slot take the next job."""
        assert seat.work is not None
        seat.stored = max(seat.stored, first + len(records) - 1)
        if records:
            seat.heard_at = time.monotonic()
        for record in records:
            if record["kind"] == "result" and RESERVED in record["measurements"]:
                kind = memory_kind(seat.work.config)
                self._peaks[kind] = max(record["measurements"][RESERVED], self._peaks.get(kind, 0.0))
        if not records or records[-1]["kind"] != "ended":
            seat.asked = seat.handle.events.remote(seat.work.attempt_id, seat.stored, LISTEN_SECONDS)
            return
        told = {"job": seat.work.job_id, "attempt": seat.work.number, "cause": records[-1]["cause"]}
        log.info("%s of %s", records[-1]["cause"], seat.work.job_id[:8], extra=told)
        seat.work, seat.asked, seat.since = None, None, time.monotonic()
        if not records[-1]["reusable"]:
            self._dismiss(seat)

    def _unheard(self, seat: Seat, error: Exception) -> None:
        """A slot that did not answer is asked again while it may be alive."""
        lost = self.cluster.why_lost(error, seat.where)
        if lost is None and not seat.silent:
            seat.silent, seat.since = True, time.monotonic()
        if lost is None and time.monotonic() - seat.since < SILENT_SECONDS:
            if seat.asked_where:
                self._ask_where(seat)
            else:
                assert seat.work is not None
                seat.asked = seat.handle.start.remote(seat.work, LISTEN_SECONDS)
            return
        cause, message = lost or ("slot_lost", f"{seat.name} could not be reached: {error}")
        if not seat.where:
            self.nodes.slot_failed(seat.cards[0][0], message.splitlines()[0])
            if why := self.nodes.all_fail():
                raise UserError(f"slots cannot start: {why}")
        self._lose(seat, cause, message)

    def _lose(self, seat: Seat, cause: str, message: str) -> None:
        """End a slot, and its attempt with it."""
        log.info("%s: %s: %s", seat.name, cause, message.splitlines()[0])
        if seat.work is not None:
            with self.lease.write() as session:
                end_attempt(session, session.get_one(Attempt, seat.work.attempt_id), cause, message)
        self._dismiss(seat)

    def _dismiss(self, seat: Seat) -> None:
        self.cluster.kill(seat.handle)
        self.seats.pop(seat.name, None)

    def _ask_where(self, seat: Seat) -> None:
        seat.asked, seat.asked_where = seat.handle.where.remote(), True

    def _ask_to_stop(self, seat: Seat, cause: str, seconds: float) -> None:
        """Have a job write a checkpoint and end; the slot is lost where it does not within `seconds`."""
        assert seat.work is not None
        seat.handle.stop.remote(seat.work.attempt_id, cause)
        seat.stop_by, seat.stop_cause = time.monotonic() + seconds, cause

    def _busy(self) -> list[Seat]:
        return [seat for seat in self.seats.values() if seat.work is not None]

"""The slots that a scheduler has: made or adopted, listened to, asked to stop, and lost.

What a slot tells is stored before it is acted on, and asked for again until it is.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from typing import NamedTuple

from headcount.orchestrator.cluster.connection import Cluster, node_id
from headcount.orchestrator.cluster.nodes import Nodes
from headcount.orchestrator.cluster.warden import version_refusal
from headcount.orchestrator.scheduling.lease import Lease
from headcount.orchestrator.scheduling.placement import PROCESSORS, Making
from headcount.orchestrator.scheduling.seats import Seat
from headcount.orchestrator.slots.slot import Place
from headcount.orchestrator.store.changes import Changes, gathered
from headcount.orchestrator.store.memory import RESERVED, memory_kind
from headcount.orchestrator.store.models import Attempt
from headcount.orchestrator.store.recording import Record, Telling, record_all
from headcount.orchestrator.store.transitions import Work, end_attempt, open_attempts, work_of
from headcount.trainer.errors import UserError

log = logging.getLogger(__name__)

ROUND_SECONDS = 0.25
"""How long to listen when nothing happens; a new wish waits no longer."""

LISTEN_SECONDS = 10.0
"""How long a slot holds a question for events that it cannot answer yet."""

IDLE_SECONDS = 60.0
SILENT_SECONDS = 60.0
"""A slot that cannot be reached for this long is lost, whatever Ray hopes."""


class Answer(NamedTuple):
    """What a slot told of its attempt, and when that was heard."""

    seat: Seat
    first: int
    """Number of the first record."""
    records: list[Record]
    at: float

    @property
    def frees(self) -> bool:
        """Whether the slot may take another job: its own has ended, and left nothing behind."""
        return self.is_last and bool(self.records[-1]["reusable"])

    @property
    def is_last(self) -> bool:
        """Whether the attempt has ended with it."""
        return bool(self.records) and self.records[-1]["kind"] == "ended"


class Hearing:
    """Keeps a seat for each slot, and hears what they have to tell."""

    def __init__(self, lease: Lease, cluster: Cluster, nodes: Nodes) -> None:
        self.lease, self.cluster, self.nodes = lease, cluster, nodes
        self.seats: dict[str, Seat] = {}
        self.peaks: dict[str, float] = {}
        """Bytes of a card that jobs of each kind took at most, as their results told."""
        self._stored: set[str] = set()
        """Slots whose answers are written but not heard yet."""

    def start(self, seat: Seat, work: Work) -> None:
        """Give a free slot its next attempt."""
        seat.work, seat.stored, seat.stop_by = work, -1, None
        seat.heard_at = time.monotonic()
        seat.asked = seat.handle.start.remote(work, LISTEN_SECONDS)

    def adopt(self) -> None:
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

    def settle_doubts(self) -> None:
        """After a write of which it is not known whether it was made: begin what it dispatched, on slots that
        have told all of what they did before."""
        self._stored.clear()
        self.listen()
        known = {seat.work.attempt_id for seat in self.busy() if seat.work}
        given: list[tuple[Seat, Work]] = []
        with self.lease.write() as session:
            for attempt in open_attempts(session):
                if attempt.id in known:
                    continue
                seat = self.seats.get(attempt.slot)
                if seat is not None and seat.is_free:
                    given.append((seat, work_of(session, attempt)))
                else:
                    end_attempt(session, attempt, "slot_lost", "gone while the store was away")
        for seat, work in given:
            self.start(seat, work)

    def make(self, making: Making, with_gpus: bool) -> None:
        """Have the cluster start a slot; it is free once it has told where it is."""
        name = f"slot-{uuid.uuid4().hex[:8]}"
        handle = self.cluster.create(name, making, with_gpus)
        if handle is not None:
            seat = self.seats[name] = Seat(name, handle, making.cards, making.share)
            self._ask_where(seat)

    def let_idle_go(self) -> None:
        """Dismiss slots that had no job for `IDLE_SECONDS`."""
        for seat in list(self.seats.values()):
            if seat.is_free and time.monotonic() - seat.since > IDLE_SECONDS:
                self.dismiss(seat)

    def listen(self) -> None:
        """Store what the slots have told, and ask on."""
        if answers := self.gather():
            with self.lease.write() as session, gathered(session) as changes:
                self.store(changes, answers)
            self.heard(answers)

    def gather(self, seconds: float = ROUND_SECONDS) -> list[Answer]:
        """What slots tell of their attempts, after at most so long. It is to be stored, and then `heard`."""
        pending = {
            seat.asked: seat
            for seat in self.seats.values()
            if seat.asked is not None and seat.name not in self._stored
        }
        answers: list[Answer] = []
        for asked in self.cluster.ready(pending, seconds):
            seat = pending[asked]
            try:
                value = self.cluster.get(asked)
            except Exception as error:
                self._unheard(seat, error)
                continue
            seat.silent = False
            if seat.asked_where:
                self._settled_in(seat, value)
            else:
                first, records = value
                answers.append(Answer(seat, first, records, time.monotonic()))
        return answers

    def store(self, changes: Changes, answers: Sequence[Answer]) -> None:
        """Write what was told; a slot keeps it until it hears that it is stored."""
        tellings = []
        for answer in answers:
            assert answer.seat.work is not None
            tellings.append(Telling(answer.seat.work.attempt_id, answer.first, answer.records))
            self._stored.add(answer.seat.name)
        record_all(changes, tellings)

    def heard(self, answers: Sequence[Answer]) -> None:
        """After they are stored: ask on, or let slots take their next jobs."""
        for answer in answers:
            self._stored.discard(answer.seat.name)
            self._heard(answer)

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
                self.dismiss(seat)
                return
        if seat.work is not None:
            # a slot that never got the work takes it now; one that has it tells its events again
            seat.asked = seat.handle.start.remote(seat.work, LISTEN_SECONDS)

    def _heard(self, answer: Answer) -> None:
        seat, first, records, at = answer
        assert seat.work is not None
        seat.stored = max(seat.stored, first + len(records) - 1)
        if records:
            seat.heard_at = at
        for record in records:
            if record["kind"] == "result" and RESERVED in record["measurements"]:
                kind = memory_kind(seat.work.config)
                self.peaks[kind] = max(record["measurements"][RESERVED], self.peaks.get(kind, 0.0))
        if not answer.is_last:
            seat.asked = seat.handle.events.remote(seat.work.attempt_id, seat.stored, LISTEN_SECONDS)
            return
        told = {"job": seat.work.job_id, "attempt": seat.work.number, "cause": records[-1]["cause"]}
        log.info("%s of %s", records[-1]["cause"], seat.work.job_id[:8], extra=told)
        seat.work, seat.asked, seat.since = None, None, at
        if not answer.frees:
            self.dismiss(seat)

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
        self.lose(seat, cause, message)

    def lose(self, seat: Seat, cause: str, message: str) -> None:
        """End a slot, and its attempt with it."""
        log.info("%s: %s: %s", seat.name, cause, message.splitlines()[0])
        if seat.work is not None:
            with self.lease.write() as session:
                end_attempt(session, session.get_one(Attempt, seat.work.attempt_id), cause, message)
        self.dismiss(seat)

    def dismiss(self, seat: Seat) -> None:
        """Let a slot go at once."""
        self.cluster.kill(seat.handle)
        self.seats.pop(seat.name, None)

    def _ask_where(self, seat: Seat) -> None:
        seat.asked, seat.asked_where = seat.handle.where.remote(), True

    def ask_to_stop(self, seat: Seat, cause: str, seconds: float) -> None:
        """Have a job write a checkpoint and end; the slot is lost where it does not within `seconds`."""
        assert seat.work is not None
        seat.handle.stop.remote(seat.work.attempt_id, cause)
        seat.stop_by, seat.stop_cause = time.monotonic() + seconds, cause

    def busy(self) -> list[Seat]:
        """The slots that have a job."""
        return [seat for seat in self.seats.values() if seat.work is not None]

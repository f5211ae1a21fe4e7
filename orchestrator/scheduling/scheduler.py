"""The loop that makes the cluster do what the store wants. It may die at any moment: the next one goes on.

Nothing is kept here that cannot be found again: which jobs are to run is in the store, which slots are alive
Ray knows, and every slot keeps its attempt's events until they are stored.
"""

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.cluster.connection import Cluster, node_id
from headcount.orchestrator.cluster.nodes import Nodes
from headcount.orchestrator.scheduling.flushing import Flushing
from headcount.orchestrator.scheduling.hearing import ROUND_SECONDS, Answer, Hearing
from headcount.orchestrator.scheduling.lacking import Lacking
from headcount.orchestrator.scheduling.lease import LEASE_SECONDS, Lease
from headcount.orchestrator.scheduling.packing import share_on
from headcount.orchestrator.scheduling.placement import Decisions, place
from headcount.orchestrator.scheduling.seats import Seat
from headcount.orchestrator.scheduling.turns import Turn
from headcount.orchestrator.scheduling.waits import Waits
from headcount.orchestrator.search.growing import Growing
from headcount.orchestrator.store.changes import Changes, gathered
from headcount.orchestrator.store.engine import StoreUnavailable
from headcount.orchestrator.store.limits import late_jobs
from headcount.orchestrator.store.memory import recorded_peaks
from headcount.orchestrator.store.models import Job
from headcount.orchestrator.store.queue import Queue
from headcount.orchestrator.store.transitions import Assignment, Work, dispatch

log = logging.getLogger(__name__)

FITTING_SECONDS = 1.0
CANCEL_SECONDS = 10.0
"""After this a job that was asked to stop loses its slot."""

STOP_SECONDS = 30.0

DRAIN_SECONDS = 2.0
"""Before a node's last moment: what has not stopped by then is given up in good order."""

MOST_A_CARD = 8
MOST_A_WRITE = 100
"""Jobs that are dispatched in one transaction: others who write wait for its end."""


class Scheduler:
    """Reconciles the store with the cluster, a round at a time, as the lease's holder."""

    def __init__(self, lease: Lease, cluster: Cluster, waits: Waits) -> None:
        self.lease, self.cluster = lease, cluster
        self.store = lease.store
        self.waits = waits
        self.nodes = Nodes(cluster)
        self.hearing = Hearing(lease, cluster, self.nodes)
        self.seats = self.hearing.seats
        self.lacking = Lacking(lease, cluster, self.nodes)
        self.growing = Growing(lease)
        self.flushing = Flushing(self.store)
        self.queue = Queue()
        self._with_gpus = False
        self._renewed = self._fitted = 0.0
        self._knows_slots = False
        """Whether slots that an earlier scheduler left were adopted."""
        self._is_up_to_date = False
        """Whether the queue was read, and what is free given, when slots were heard last."""

    def run(self, ended: Callable[[], bool]) -> None:
        """Adopt what is alive, then work until `ended`. Raises `LeaseLost` and `UserError`."""
        catch_up = self.hearing.adopt
        behind = True
        try:
            while not ended():
                try:
                    if behind:
                        catch_up()
                        self.queue.forget()
                        catch_up, behind = self.hearing.settle_doubts, False
                        self._knows_slots = True
                    self._round()
                except StoreUnavailable as error:
                    log.warning("%s; trying again", error)
                    self.flushing.forget()
                    behind = True
                    time.sleep(1)
            with suppress(StoreUnavailable):  # the next scheduler begins what this one could not
                self.flushing.finish()
        finally:
            self.flushing.forget()

    def stop(self) -> None:
        """Have every running job write a checkpoint and go back to the queue; then let all slots go."""
        if not self._knows_slots:
            self.hearing.adopt()
        self.flushing.finish()
        self.queue.forget()
        with self.store.read() as session:
            unwanted = self._read_wishes(session)
        self._stop_unwanted(unwanted)
        for seat in self.hearing.busy():
            if seat.stop_by is None:
                self.hearing.ask_to_stop(seat, "preempted", STOP_SECONDS)
        deadline = time.monotonic() + STOP_SECONDS
        while self.hearing.busy() and time.monotonic() < deadline:
            self.hearing.listen()
        for seat in self.hearing.busy():
            self.hearing.lose(seat, "preempted", "did not stop in time")
        self.dismiss_all()

    def dismiss_all(self) -> None:
        """Let all slots go at once; what they ran is settled as lost by the next scheduler."""
        self.growing.close()
        self.flushing.close()
        self.lacking.withdraw()
        self.nodes.clear_marks()
        for seat in list(self.seats.values()):
            self.hearing.dismiss(seat)

    def _round(self) -> None:
        if time.monotonic() - self._renewed > LEASE_SECONDS / 3:
            self.lease.renew()
            self._renewed = time.monotonic()
        self.nodes.refresh(self.seats)
        self._stop_by_force()
        self._stop_drained()
        self._give_up_hanging()
        self.growing.step()
        timed = time.monotonic() - self._fitted > FITTING_SECONDS
        if timed or not self._is_up_to_date:
            self.flushing.finish()
            self._look(timed)
        if answers := self.hearing.gather(0.0 if self.flushing else ROUND_SECONDS):
            self._go_on(answers)
        self._is_up_to_date = bool(answers or self.flushing)
        self.flushing.step(wait=not answers)

    def _look(self, timed: bool) -> None:
        """Keep up with what is wanted, and give what is free; now and then see to the slots as a whole."""
        if timed:
            self._fitted = time.monotonic()
            self.hearing.let_idle_go()
            self._stop_late()
        with self.store.read() as session:
            unwanted = self._read_wishes(session)
            decisions = self._decide(session, (), timed)
        self._stop_unwanted(unwanted)
        self._carry_out(decisions)
        if timed:
            self.lacking.tell(decisions, self.seats.values(), self._with_gpus)

    def _go_on(self, answers: list[Answer]) -> None:
        """Store what was told, and give slots that it frees their next jobs, in one transaction.

        Nothing is begun before the store has it, and no slot forgets what the store may not have.
        """
        self.flushing.prepare()
        with self.lease.write(flushed=False) as session, gathered(session) as changes:
            self.hearing.store(changes, answers)
            unwanted = self._read_wishes(session)
            decisions = self._decide(session, answers, timed=False)
            first, decisions.give = decisions.give[:MOST_A_WRITE], decisions.give[MOST_A_WRITE:]
            given = self._give(changes, first)

        def go_on() -> None:
            self.hearing.heard(answers)
            self._begin(given)

        self.flushing.then(go_on)
        if unwanted or decisions.leave or decisions.make or decisions.give:
            self.flushing.finish()
            self._stop_unwanted(unwanted)
            self._carry_out(decisions)

    def _read_wishes(self, session: Session) -> set[str]:
        """Keep up with what is wanted; the jobs to be stopped, where that has changed."""
        if self.nodes.with_gpus != self._with_gpus:
            self._with_gpus, self.queue = self.nodes.with_gpus, Queue(by_memory=True)
            self.hearing.peaks |= recorded_peaks(session)
        if not self.queue.read(session) or not self.hearing.busy():
            return set()
        return set(session.scalars(select(Job.id).where(Job.state == "cancelling")))

    def _stop_unwanted(self, unwanted: set[str]) -> None:
        for seat in self.hearing.busy() if unwanted else ():
            assert seat.work is not None
            if seat.work.job_id in unwanted and seat.stop_by is None:
                self.hearing.ask_to_stop(seat, "cancelled", CANCEL_SECONDS)

    def _stop_by_force(self) -> None:
        for seat in self.hearing.busy():
            if seat.stop_by is not None and time.monotonic() > seat.stop_by:
                self._lose(seat, seat.stop_cause, "stopped by force")

    def _stop_drained(self) -> None:
        """Have what runs on nodes that are about to go write a checkpoint, and go on elsewhere."""
        for seat in list(self.seats.values()):
            node = node_id(seat.where)
            if node not in self.nodes.draining or seat.stop_by is not None:
                continue
            if seat.work is None:
                self.hearing.dismiss(seat)
                continue
            left = self.nodes.draining[node]
            seconds = STOP_SECONDS if left is None else min(STOP_SECONDS, left - DRAIN_SECONDS)
            self.hearing.ask_to_stop(seat, "preempted", max(1.0, seconds))

    def _stop_late(self) -> None:
        """Have what runs beyond the end of its sweep write a checkpoint, and go back to the queue."""
        with self.store.read() as session:
            late = late_jobs(session)
        for seat in self.hearing.busy() if late else ():
            assert seat.work is not None
            if seat.work.job_id in late and seat.stop_by is None:
                self.hearing.ask_to_stop(seat, "preempted", STOP_SECONDS)

    def _give_up_hanging(self) -> None:
        for seat in self.hearing.busy():
            if verdict := seat.pulse.verdict(seat.heard_at, time.monotonic()):
                self._lose(seat, *verdict)

    def _lose(self, seat: Seat, cause: str, message: str) -> None:
        """End a slot with its job, unless the job has just ended."""
        work = seat.work
        self.flushing.finish()
        if seat.work is work:
            self.hearing.lose(seat, cause, message)

    def _decide(self, session: Session, answers: Sequence[Answer], timed: bool) -> Decisions:
        """Which slots get which jobs, and which slots there are to be, once `answers` are heard."""
        freed = {answer.seat.name for answer in answers if answer.frees}
        leaving = {answer.seat.name for answer in answers if answer.is_last} - freed
        seats = [seat for seat in self.seats.values() if seat.name not in leaving]
        held = [replace(seat.held, free=True) if seat.name in freed else seat.held for seat in seats]
        if not (timed or any(slot.free for slot in held)):
            return Decisions()
        devices = self.nodes.devices(seats)
        most = MOST_A_CARD * (len(devices) if self._with_gpus else sum(int(d.room) for d in devices))
        turns = self.queue.turns(session)
        decisions = place(turns, devices, held, lambda t, d: share_on(t, d, self.hearing.peaks), most + 8)
        if not (decisions.give or decisions.make or decisions.wait or decisions.nowhere):
            self.waits.nothing_queued()
        return decisions

    def _carry_out(self, decisions: Decisions) -> None:
        for name in decisions.leave:
            self.hearing.dismiss(self.seats[name])
        for making in decisions.make:
            self.hearing.make(making, self._with_gpus)
        for start in range(0, len(decisions.give), MOST_A_WRITE):
            with self.lease.write() as session, gathered(session) as changes:
                given = self._give(changes, decisions.give[start : start + MOST_A_WRITE])
            self._begin(given)

    def _give(self, changes: Changes, pairs: Sequence[tuple[str, Turn]]) -> list[tuple[Seat, Work]]:
        """Open attempts on slots; they begin once that is stored."""
        seats = {turn.job_id: self.seats[name] for name, turn in pairs}
        assignments = []
        for job_id, seat in seats.items():
            share = len(seat.cards) * seat.share if self._with_gpus else None
            assignments.append(Assignment(job_id, seat.name, seat.where, share))
            self.queue.took(job_id)
        works = dispatch(changes, self.lease.epoch, assignments)
        return [(seats[job_id], work) for job_id, work in works.items()]

    def _begin(self, given: Sequence[tuple[Seat, Work]]) -> None:
        for seat, work in given:
            self.waits.dispatched(seat.since)
            self.hearing.start(seat, work)
            told = {"job": work.job_id, "attempt": work.number, "slot": seat.name, "node": seat.where}
            log.info("attempt %d of %s on %s", work.number, work.job_id[:8], seat.name, extra=told)

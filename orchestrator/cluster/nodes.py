"""The cluster's nodes: which may hold slots, what room their cards have, and which are about to go."""

import logging
import math
import os
import re
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headcount.orchestrator.cluster.card_memory import CardUse, strangers, visible_cards
from headcount.orchestrator.cluster.connection import Cluster, NodeFacts
from headcount.orchestrator.cluster.warden import Report, refusal
from headcount.orchestrator.scheduling.placement import PROCESSORS, Device
from headcount.orchestrator.scheduling.seats import Seat

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
REFUSED_SECONDS = 60.0
"""After this a node whose slots did not start is tried again."""

MOST_FAILED_STARTS = 3

ANSWER_SECONDS = 30.0
"""A warden that has not answered for so long is told of."""


class Nodes:
    """What is known of the nodes, refreshed now and then; a warden on each tells what Ray does not."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.facts: dict[str, NodeFacts] = {}
        self.with_gpus = False
        """Whether jobs go to cards: where a node has one, or may have."""
        self.maximum: dict[str, float] | None = None
        """What the largest node that there may be has of each resource; none where nobody declared it."""
        self.draining: dict[str, float | None] = {}
        """Seconds that each node about to go has left; none where it did not say."""
        self.refused: dict[str, str] = {}
        self.failed: dict[str, tuple[int, float, str]] = {}
        """Starts of slots that failed in a row, when the last did, and why."""
        self._reports: dict[str, Report] = {}
        self._wardens: dict[str, Any] = {}
        self._asked: dict[str, tuple[Any, float]] = {}
        """The answer of each warden that is awaited, and since when."""
        self._looked = -LOOK_SECONDS
        self._marks: list[Path] = []

    def refresh(self, seats: Mapping[str, Seat]) -> None:
        """Look at Ray's picture of the nodes, and at what their wardens answered; nothing here waits."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        self.facts = self.cluster.nodes()
        self.maximum = self.cluster.declared_maximum()
        may_have_gpus = self.maximum is not None and self.maximum.get("GPU", 0) > 0
        self.with_gpus = may_have_gpus or any(facts.gpus for facts in self.facts.values())
        self.draining = self.cluster.draining()
        for gone in self._wardens.keys() - self.facts.keys():
            for known in (self._wardens, self._asked, self._reports, self.refused):
                known.pop(gone, None)
        self._hear(seats, now)
        if self.cluster.is_local and not any(seat.where for seat in seats.values()):
            return  # the first job starts sooner
        self._ask(seats)

    def devices(self, seats: Iterable[Seat]) -> list[Device]:
        """The devices of the nodes that may hold slots now."""
        with_gpus, pids = self.with_gpus, _pids_by_card(seats)
        devices = []
        for node, facts in self.facts.items():
            if not self._is_admitted(node):
                continue
            if not with_gpus:
                devices.append(Device(node, PROCESSORS, float(facts.cpus)))
                continue
            uses = self._uses(node)
            for index in self._cards(node):
                use = uses.get(index)
                held = strangers(use, pids.get((node, index), set())) if use else None
                room = 1.0 - held.share if held else 1.0
                memory = float(use.memory) if use else 0.0
                devices.append(Device(node, index, room, facts.accelerator, memory))
        return devices

    @property
    def all_heard(self) -> bool:
        """Whether every node has been found fit or unfit; one that keeps silent is waited for no longer."""
        return all(
            node in self._reports or self._is_admitted(node) or self._is_silent(node) for node in self.facts
        )

    def slot_failed(self, node: str, message: str) -> None:
        """A slot on the node did not start."""
        count = self.failed.get(node, (0, 0.0, ""))[0]
        self.failed[node] = count + 1, time.monotonic(), message

    def all_fail(self) -> str | None:
        """Why slots start on no node at all, where that is so."""
        known = [self._failure(node) for node in self.facts]
        return known[0] if known and all(known) else None

    def notices(self, seats: Iterable[Seat]) -> dict[str, str]:
        """What keeps nodes and cards from being used."""
        found = {f"node {self._host(node)}": f"is refused: {words}" for node, words in self.refused.items()}
        pids = _pids_by_card(seats)
        for node in self.facts:
            if words := self._failure(node):
                found[f"node {self._host(node)}"] = f"slots do not start: {words}"
            elif self._is_silent(node):
                found[f"node {self._host(node)}"] = _SILENT if node in self._reports else _NEVER_HEARD
            if node in self.draining:
                found[f"node {self._host(node)}"] = "is about to go"
            uses = self._uses(node)
            for index in self._cards(node):
                use = uses.get(index)
                if use and (held := strangers(use, pids.get((node, index), set()))):
                    found[f"card {index} of {self._host(node)}"] = held.words
        return found

    def clear_marks(self) -> None:
        for mark in self._marks:
            mark.unlink(missing_ok=True)

    def _is_admitted(self, node: str) -> bool:
        if node in self.refused or node in self.draining or self._failure(node):
            return False
        # this machine's own node shares its files and, mostly, its package; its slots say so themselves
        return node in self._reports or node == self.cluster.own_node

    def _is_silent(self, node: str) -> bool:
        _, asked_at = self._asked.get(node, (None, math.inf))
        return time.monotonic() - asked_at > ANSWER_SECONDS

    def _failure(self, node: str) -> str | None:
        count, at, message = self.failed.get(node, (0, 0.0, ""))
        if count < MOST_FAILED_STARTS or time.monotonic() - at > REFUSED_SECONDS:
            return None
        return message

    def _ask(self, seats: Mapping[str, Seat]) -> None:
        if not self._marks:
            self._marks = _make_marks(self.cluster.shared_folders())
        for node in self.facts:
            if node in self._asked or node in self.draining:
                continue
            if node not in self._wardens:
                self._wardens[node] = self.cluster.warden(node)
            pids = [seat.pid for seat in seats.values() if seat.pid and seat.where.endswith(node)]
            asked = self._wardens[node].report.remote(pids, [str(m) for m in self._marks])
            self._asked[node] = asked, time.monotonic()

    def _hear(self, seats: Mapping[str, Seat], now: float) -> None:
        for node, (answer, _) in list(self._asked.items()):
            if not self.cluster.ready([answer], 0.0):
                continue
            del self._asked[node]
            try:
                report: Report = self.cluster.get(answer)
            except Exception as error:
                log.warning("the warden of %s did not answer: %s", self._host(node), _reason(error))
                self._wardens.pop(node, None)
                self.slot_failed(node, _reason(error))
                continue
            self._reports[node] = report
            words = refusal(report)
            if words and node != self.cluster.own_node:
                if node not in self.refused:
                    log.warning("node %s is refused: %s", report.host, words)
                self.refused[node] = words
            else:
                self.refused.pop(node, None)
            for seat in seats.values():
                if (sign := report.signs.get(seat.pid)) and seat.where.endswith(node):
                    seat.pulse.feel(sign, now)

    def _cards(self, node: str) -> Sequence[int]:
        """The numbers of the node's cards, by which its slots tell where they are.

        A Ray that was started with some of the machine's cards calls those by the same numbers.
        """
        count, report = self.facts[node].gpus, self._reports.get(node)
        if report:
            visible = report.visible
        else:  # this machine's own Ray was started as the scheduler is
            own = self.cluster.is_local and node == self.cluster.own_node
            visible = visible_cards(os.environ.get("CUDA_VISIBLE_DEVICES", "")) if own else ()
        return visible[:count] if len(visible) >= count else range(count)

    def _uses(self, node: str) -> dict[int, CardUse]:
        report = self._reports.get(node)
        return {card.index: card for card in report.cards} if report else {}

    def _host(self, node: str) -> str:
        facts = self.facts.get(node)
        return f"{facts.host}/{node[:8]}" if facts else node[:8]


def _pids_by_card(seats: Iterable[Seat]) -> dict[tuple[str, int], set[int]]:
    pids: dict[tuple[str, int], set[int]] = {}
    for seat in seats:
        for card in seat.cards:
            pids.setdefault(card, set()).add(seat.pid)
    return pids


def _make_marks(folders: Iterable[Path]) -> list[Path]:
    """A file in each folder that every node should see."""
    marks = [folder / f".mark-{uuid.uuid4().hex[:12]}" for folder in folders]
    for mark in marks:
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
    return marks


def _reason(error: Exception) -> str:
    """The last line of what Ray tells, which names the cause; before it comes where that was raised."""
    lines = [line for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__


_NEVER_HEARD = (
    "gets no slots: the warden that looks at it has not answered yet; see whether Ray starts processes there"
)
_SILENT = "does not answer: its warden says nothing any more, so that a job that hangs there goes unseen"

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

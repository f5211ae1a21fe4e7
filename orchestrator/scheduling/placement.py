"""Which slot a job goes to, which slots are made and which make room: a decision over plain data.

A job that finds no room keeps a place for itself, so that it is not passed for ever by smaller ones: no job
that comes after it takes the cards kept for it. Behind it, of jobs of equal priority and the same need, only
the first keeps a place; jobs of lower priority stay off all places that higher ones wait for.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from headcount.orchestrator.scheduling.turns import Need, Turn

NEARLY = 1e-6
"""Shares such as thirds do not add up exactly."""

PROCESSORS = -1

Card = tuple[str, int]
"""Node and index on it."""


@dataclass(frozen=True)
class Device:
    """A card, or a node's processors as a whole."""

    node: str
    index: int
    """Of the card on its node; `PROCESSORS` for all of its processors."""
    room: float = 1.0
    """Cards' worth that jobs may take: 1 less what strangers hold; on processors, their number."""
    accelerator: str | None = None
    memory: float = 0.0
    """Bytes; 0 where not known."""

    @property
    def card(self) -> Card:
        return self.node, self.index


@dataclass(frozen=True)
class Held:
    """A slot as far as placement asks: where it is and how much it takes."""

    name: str
    cards: tuple[Card, ...]
    share: float
    """Of each of its cards."""
    free: bool = False
    starting: bool = False


@dataclass(frozen=True)
class Making:
    """A slot to be made, for the job that asked for it."""

    node: str
    cards: tuple[Card, ...]
    share: float


@dataclass
class Decisions:
    """What is to be done now."""

    give: list[tuple[str, Turn]] = field(default_factory=list)
    """A free slot's name, and its job."""
    make: list[Making] = field(default_factory=list)
    leave: list[str] = field(default_factory=list)
    """Free slots that make room for others."""
    wait: list[Turn] = field(default_factory=list)
    """Jobs that fit only when others have ended."""
    nowhere: list[Turn] = field(default_factory=list)
    """Jobs that no device of the cluster could hold, however long they wait."""


ShareOf = Callable[[Turn, Device], float]
"""What a job takes of a device."""


def place(
    turns: Iterable[Turn], devices: Sequence[Device], slots: Sequence[Held], share_of: ShareOf, most: int
) -> Decisions:
    """Place the first jobs of `turns`, as many as there is room for; looks at `most` of them."""
    room = _Room(devices, slots, share_of)
    decisions = Decisions()
    full: set[tuple[int, Need]] = set()
    for turn, _ in zip(turns, range(most), strict=False):
        fitting = room.nodes_for(turn)
        if not fitting:
            decisions.nowhere.append(turn)
            continue
        alike = turn.priority, turn.need
        if alike not in full and (room.slot(turn, decisions) or room.space(turn, decisions)):
            continue
        decisions.wait.append(turn)
        room.keep_place(turn, strictly=alike not in full)
        full.add(alike)
        if room.is_closed():
            break
    return decisions


class _Room:
    """What is free on the devices while jobs are placed one after another."""

    def __init__(self, devices: Sequence[Device], slots: Sequence[Held], share_of: ShareOf) -> None:
        self.devices = sorted(devices, key=lambda device: device.card)
        self.ready = {slot.name: slot for slot in slots if slot.free or slot.starting}
        """Slots that wait for a job, or will."""
        self.share_of = share_of
        self.fitting: dict[Need, list[list[Device]]] = {}
        self.sizes: dict[Need, dict[Card, float]] = {}
        self.open = {device.card: device.room for device in devices}
        for slot in slots:
            self._take(slot.cards, slot.share)
        self.kept: dict[Card, int] = {}
        """The priority of the job that a card is kept for."""
        self.strict: set[Card] = set()
        """Kept from those of equal priority too."""

    def nodes_for(self, turn: Turn) -> list[list[Device]]:
        """The devices of each node that the job could run on, were they free."""
        need = turn.need
        if need not in self.fitting:
            fitting = [
                device
                for device in self.devices
                if need.accelerator in (None, device.accelerator)
                and self.share_of(turn, device) <= device.room + NEARLY
            ]
            nodes = [list(found) for _, found in groupby(fitting, key=lambda device: device.node)]
            self.fitting[need] = [found for found in nodes if len(found) >= need.gpus]
            self.sizes[need] = {d.card: self.share_of(turn, d) for found in nodes for d in found}
        return self.fitting[need]

    def slot(self, turn: Turn, decisions: Decisions) -> bool:
        """Give the job a slot of its size: one that is free, or that starts already."""
        sizes = self.sizes[turn.need]
        for slot in self.ready.values():
            if len(slot.cards) == turn.need.gpus and all(
                card in sizes and abs(sizes[card] - slot.share) < NEARLY and self._may_use(turn, card)
                for card in slot.cards
            ):
                if slot.free:
                    decisions.give.append((slot.name, turn))
                del self.ready[slot.name]
                return True
        return False

    def space(self, turn: Turn, decisions: Decisions) -> bool:
        """Make the job a slot where there is room, or where free slots that nobody asked for make it."""
        for yielding in (False, True):
            choices = []
            for found in self.nodes_for(turn):
                usable = [
                    device
                    for device in found
                    if self._may_use(turn, device.card)
                    and self._open(device.card, yielding) + NEARLY >= self.share_of(turn, device)
                ]
                usable.sort(key=lambda device: self._preference(device, yielding))
                if len(usable) >= turn.need.gpus:
                    choices.append(usable[: turn.need.gpus])
            if not choices:
                continue
            best = min(choices, key=lambda chosen: self._preference(chosen[0], yielding))
            share = self.share_of(turn, best[0])
            cards = tuple(device.card for device in best)
            for card in cards:
                self._clear(card, share, decisions)
            decisions.make.append(Making(best[0].node, cards, share))
            self._take(cards, share)
            return True
        return False

    def keep_place(self, turn: Turn, strictly: bool) -> None:
        """Close the cards that will be free first to those that come after the job: to all of them, or to
        those of lower priority."""
        unkept = [[d for d in found if d.card not in self.kept] for found in self.nodes_for(turn)]
        choices = [
            sorted(found, key=lambda device: -self._open(device.card, True))[: turn.need.gpus]
            for found in unkept
            if len(found) >= turn.need.gpus
        ]
        if choices:
            for device in max(choices, key=lambda chosen: self._open(chosen[-1].card, True)):
                self.kept[device.card] = turn.priority
                if strictly:
                    self.strict.add(device.card)

    def is_closed(self) -> bool:
        """Whether no card is left for any that comes after."""
        return len(self.strict) == len(self.devices)

    def _preference(self, device: Device, yielding: bool) -> float:
        """The fullest card, as Ray chooses too; the emptiest of the nodes without cards."""
        room = self._open(device.card, yielding)
        return -room if device.index == PROCESSORS else room

    def _may_use(self, turn: Turn, card: Card) -> bool:
        if card not in self.kept:
            return True
        return card not in self.strict and turn.priority >= self.kept[card]

    def _open(self, card: Card, yielding: bool) -> float:
        """Room on a card, with that of free slots where they are to yield."""
        return self.open[card] + (sum(s.share for s in self._idle(card)) if yielding else 0.0)

    def _idle(self, card: Card) -> list[Held]:
        return [slot for slot in self.ready.values() if slot.free and card in slot.cards]

    def _clear(self, card: Card, share: float, decisions: Decisions) -> None:
        for slot in self._idle(card):
            if self.open[card] + NEARLY >= share:
                return
            decisions.leave.append(slot.name)
            del self.ready[slot.name]
            self._take(slot.cards, -slot.share)

    def _take(self, cards: Iterable[Card], share: float) -> None:
        for card in cards:
            if card in self.open:
                self.open[card] -= share

"""A slot as the scheduler sees it."""

import time
from dataclasses import dataclass, field
from typing import Any

from headcount.orchestrator.scheduling.placement import Card, Held
from headcount.orchestrator.slots.heartbeat import Pulse
from headcount.orchestrator.store.transitions import Work


@dataclass
class Seat:
    """A slot's handle, what it runs, and which answer of it is awaited."""

    name: str
    handle: Any
    cards: tuple[Card, ...] = ()
    share: float = 1.0
    """Of each of its cards."""
    where: str = ""
    """Its node; empty while it starts."""
    pid: int = 0
    """Of its process; 0 while not known."""
    work: Work | None = None
    stored: int = -1
    """Number of the last event stored of `work`."""
    asked: Any = None
    """The answer that is awaited."""
    asked_where: bool = False
    """Whether that will be its place, and not events."""
    since: float = 0.0
    """When it became idle, or fell silent."""
    stop_by: float | None = None
    """Asked to stop, it loses its slot then."""
    stop_cause: str = ""
    silent: bool = False
    heard_at: float = field(default_factory=time.monotonic)
    """When its job last told something."""
    pulse: Pulse = field(default_factory=Pulse)

    @property
    def is_free(self) -> bool:
        return bool(self.where) and self.work is None

    @property
    def held(self) -> Held:
        """It, as placement asks."""
        return Held(self.name, self.cards, self.share, free=self.is_free, starting=not self.where)

"""The list of sweeps: which are shown, in which order, and what it says of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Any, get_args
from urllib.parse import urlencode

from sqlalchemy.orm import Session

from headcount.api.results import QueryError, SweepBrief, SweepState, SweepSummary, list_sweeps, sweep_brief
from headcount.api.results.lookup import find_sweep
from headcount.api.results.sweeps import Known
from headcount.dashboard.figures.spark import Spark, spark
from headcount.orchestrator.following.time_to_go import TimeToGo, time_to_go
from headcount.trainer.errors import nearest

MOST_LINES = 100
"""Sweeps that the page lists; above that it asks for a filter."""

STATES: tuple[str, ...] = get_args(SweepState)
"""What the filter by state offers."""


@dataclass(frozen=True)
class SweepLine:
    """One sweep on the page."""

    summary: SweepSummary
    brief: SweepBrief | None
    """None before the first result."""
    to_go: TimeToGo | None
    """None where nothing runs, or before a job of it has finished."""
    spark: Spark | None


_Key = tuple[Any, ...]
SORTS: dict[str, tuple[str, bool, Callable[[SweepLine], _Key]]] = {
    "name": ("Sweep", False, lambda line: (line.summary.name.casefold(),)),
    "state": ("State", False, lambda line: (STATES.index(line.summary.state),)),
    "progress": ("Progress", True, lambda line: (line.summary.progress,)),
    "delta": ("Best cell", False, lambda line: _best(line)),
    "owner": ("Owner", False, lambda line: (line.summary.owner.casefold(),)),
    "submitted": ("Submitted", True, lambda line: (line.summary.created,)),
}
"""Each order: its label, whether it begins at the greatest, and by what it goes."""


def _best(line: SweepLine) -> _Key:
    """Deltas before mere losses, and these before nothing."""
    if line.brief is None:
        return (2, 0.0)
    delta = line.brief.best.delta
    if line.brief.measure == "delta" and delta is not None:
        return (0, delta.mean)
    return (1, line.brief.best.mean)


@dataclass(frozen=True)
class Asked:
    """What the address asks for: all of it is there, defaults written too."""

    q: str = ""
    """In the name, the description or the owner, in any case."""
    state: str = ""
    owner: str = ""
    sort: str = "-submitted"
    """One of `SORTS`; a minus before it turns the order around."""

    def query(self, **changed: str) -> str:
        """The address's query."""
        return urlencode(vars(self) | changed)

    @property
    def by(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    @property
    def narrowed(self) -> bool:
        """Whether some sweeps may be left out."""
        return bool(self.q or self.state or self.owner)

    def sorted_by(self, name: str) -> str:
        """The query with another order, or with this one turned around."""
        greatest_first = not self.descending if name == self.by else SORTS[name][1]
        return self.query(sort=f"-{name}" if greatest_first else name)


def asked(query: Mapping[str, str]) -> Asked:
    """What a query asks for. Raises `QueryError` for anything it does not know."""
    for name in query:
        if name not in ("q", "state", "owner", "sort"):
            raise QueryError(f"this page knows no {name!r}; {nearest(name, ('q', 'state', 'owner', 'sort'))}")
    found = Asked(**query)
    if found.state and found.state not in STATES:
        raise QueryError(f"no sweep is ever {found.state!r}; {nearest(found.state, STATES)}")
    if found.by not in SORTS:
        raise QueryError(f"there is no order {found.by!r}; {nearest(found.by, SORTS)}")
    return found


@dataclass(frozen=True)
class SweepsPage:
    """Everything on the page."""

    asked: Asked
    lines: tuple[SweepLine, ...]
    """At most `MOST_LINES`."""
    found: int
    """That the filters let through."""
    all: int
    owners: tuple[str, ...]


@dataclass
class Lines:
    """The lines as they were made last: of a sweep that did not change, nothing is computed again."""

    known: Known
    _kept: dict[str, tuple[int, datetime, SweepLine]] = field(default_factory=dict)
    _turn: Lock = field(default_factory=Lock)

    def page(self, session: Session, asked: Asked) -> SweepsPage:
        """The page that is asked for. Only an order by the best cell reads the results of all."""
        with self._turn:
            sweeps = list_sweeps(session, self.known)
            found = [sweep for sweep in sweeps if _shows(asked, sweep)]
            whole = asked.by == "delta"
            lines = [self._line(session, s) if whole else SweepLine(s, None, None, None) for s in found]
            lines.sort(key=SORTS[asked.by][2], reverse=asked.descending)
            shown = lines[:MOST_LINES]
            if not whole:
                shown = [self._line(session, line.summary) for line in shown]
            self._forget(sweeps)
        owners = tuple(sorted({sweep.owner for sweep in sweeps}))
        return SweepsPage(asked, tuple(shown), len(found), len(sweeps), owners)

    def _line(self, session: Session, sweep: SweepSummary) -> SweepLine:
        kept = self._kept.get(sweep.name)
        if kept is None or kept[:2] != (sweep.version, sweep.created):
            brief = sweep_brief(session, sweep.name)
            to_go = time_to_go(session, find_sweep(session, sweep.name)) if sweep.state == "running" else None
            line = SweepLine(sweep, brief, to_go, spark(brief) if brief else None)
            kept = self._kept[sweep.name] = (sweep.version, sweep.created, line)
        return kept[2]

    def _forget(self, sweeps: Sequence[SweepSummary]) -> None:
        """Sweeps that are there no more."""
        for name in self._kept.keys() - {sweep.name for sweep in sweeps}:
            del self._kept[name]


def _shows(asked: Asked, sweep: SweepSummary) -> bool:
    text = f"{sweep.name}\n{sweep.description}\n{sweep.owner}".casefold()
    return (
        asked.q.strip().casefold() in text
        and asked.state in ("", sweep.state)
        and asked.owner in ("", sweep.owner)
    )

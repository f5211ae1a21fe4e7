"""What a sweep's page shows, as its address says it: nothing of the view lives anywhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headcount.api.results import AblationTable, CurveLine, QueryError
from headcount.api.results.curves import HeadCurve, best_cell
from headcount.api.results.selection import RATE
from headcount.dashboard import text
from headcount.dashboard.figures.bars import SPREADS, Measure, Spread
from headcount.dashboard.options import Option, default_lines, options_of, varied
from headcount.trainer.errors import nearest

TABS = {
    "heads": "Heads",
    "grid": "Grid",
    "paired": "Paired",
    "rates": "Learning rate",
    "curves": "Curves",
    "depth": "Depth",
    "speed": "Speed",
    "jobs": "Jobs",
    "timeline": "Timeline",
    "plan": "Plan",
}
"""The tabs of a sweep's page with their labels, the first by default."""

FILTERED_TABS = ("heads", "grid", "paired", "rates", "curves", "depth")
"""Those that show one value of every axis that they do not spread out."""


@dataclass(frozen=True)
class Filter:
    """An axis that is neither across nor makes the lines: the page shows one of its values."""

    axis: str
    values: tuple[str, ...]
    chosen: str


@dataclass(frozen=True)
class Choice:
    """The tab, what is chosen on it, and one value of every further axis."""

    tab: str
    options: tuple[Option, ...]
    lines: str | None
    """The axis that makes the lines of the curve, and the rows of the grid."""
    filters: tuple[Filter, ...]
    constant: tuple[str, ...]
    """Axes of one value: said once, and left out of every name."""

    def query(self, **changed: str) -> str:
        """The address's query, defaults written too, so that a link means the same tomorrow.

        The first tab alone goes without its name: it is the page itself.
        """
        chosen = {option.name: option.chosen for option in self.options}
        state = {} if self.tab == next(iter(TABS)) else {"tab": self.tab}
        state |= {"y": chosen.pop("y")} if "y" in chosen else {}
        return urlencode(state | {f.axis: f.chosen for f in self.filters} | chosen | changed)

    def option(self, name: str) -> str | None:
        """What is chosen of an option; None where the tab has no such one."""
        return next((option.chosen for option in self.options if option.name == name), None)

    @property
    def measure(self) -> Measure:
        """Of the figures; a tab without the choice is about deltas."""
        return "loss" if self.option("y") in ("loss", "training") else "delta"

    @property
    def spread(self) -> Spread | None:
        """What the bars show; None for the measure's default."""
        return next((spread for spread in SPREADS if spread == self.option("bars")), None)

    def shows(self, settings: Mapping[str, Any]) -> bool:
        """Whether a line, or a panel, of these settings is chosen."""
        return all(f.axis not in settings or text.setting(settings[f.axis]) == f.chosen for f in self.filters)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The axes of which one value is shown: they need not stand in the name of a line."""
        return (*self.constant, *(f.axis for f in self.filters))


def tab_of(table: AblationTable, query: Mapping[str, str]) -> str:
    """The tab that a query asks for. Raises `QueryError` for one that this sweep does not have."""
    known = tabs_of(table)
    tab = query.get("tab", known[0])
    if tab not in known:
        raise QueryError(f"this page has no tab {tab!r}; {nearest(tab, known)}")
    return tab


def tabs_of(table: AblationTable) -> list[str]:
    """The tabs of a sweep: the heads need an axis, the grid two that vary, the rates several rates."""
    absent = set() if table.axes else {"heads"}
    if len(varied(table)) < 2:
        absent.add("grid")
    if len(table.axes.get(RATE, ())) < 2:
        absent.add("rates")
    return [tab for tab in TABS if tab not in absent]


def choose(table: AblationTable, curve: HeadCurve | None, query: Mapping[str, str]) -> Choice:
    """The choice that a query asks for, completed. Raises `QueryError` for anything it does not know.

    By default a sweep with controls shows the delta, and of the other axes the value at which the best
    cell lies: that cell is on the page that opens. An axis that the tab spreads out needs no value: where
    another axis was chosen for that, the value is dropped.
    """
    tab = tab_of(table, query)
    options = options_of(tab, table, curve, query)
    chosen = {option.name: option.chosen for option in options}
    lines = None if tab in ("curves", "depth") else chosen.get("lines") or default_lines(table, curve)
    spread = {chosen.get("rows"), chosen.get("columns")} if tab == "grid" else {lines, curve and curve.axis}
    filters = []
    for axis in varied(table) if tab in FILTERED_TABS else ():
        if axis in spread:
            continue
        values = tuple(text.setting(value) for value in table.axes[axis])
        value = query.get(axis) or _default(table, axis, values)
        if value not in values:
            raise QueryError(f"{axis} has no value {value!r}; {nearest(value, values)}")
        filters.append(Filter(axis, values, value))
    # a seed is chosen where a pair is drawn, and stays in the form that leaves it
    known = {"tab", *(("seed",) if tab == "curves" else ()), *chosen, *(f.axis for f in filters)}
    for name in query:
        if name not in known and name not in (varied(table) if tab in FILTERED_TABS else ()):
            raise QueryError(f"this page knows no {name!r}; {nearest(name, known)}")
    return Choice(tab, options, lines, tuple(filters), constant_axes(table))


def constant_axes(table: AblationTable) -> tuple[str, ...]:
    """The axes of one value."""
    return tuple(axis for axis, values in table.axes.items() if len(values) == 1)


def _default(table: AblationTable, axis: str, values: tuple[str, ...]) -> str:
    best = best_cell(table.treatments)
    settings = table.row(best).settings if best is not None else {}
    return text.setting(settings[axis]) if axis in settings else values[0]


def shown_lines(curve: HeadCurve, choice: Choice) -> tuple[CurveLine, ...]:
    """The chosen lines of a curve."""
    return tuple(line for line in curve.lines if choice.shows(line.settings))

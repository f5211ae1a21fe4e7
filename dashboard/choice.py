"""What a sweep's page shows, as its address says it: nothing of the view lives anywhere else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from headcount.api.results import AblationTable, CurveLine, QueryError
from headcount.api.results.curves import HEADS, KV_HEADS, HeadCurve, best_cell
from headcount.api.results.selection import RATE
from headcount.dashboard import text
from headcount.dashboard.figures.head_curve import Measure
from headcount.trainer.errors import nearest

TABS = {"answer": "Answer", "rates": "Learning rate", "curves": "Curves", "speed": "Speed", "jobs": "Jobs"}
"""The tabs of a sweep's page with their labels, the first by default."""

MEASURED_TABS = ("answer", "rates", "curves")
"""Those that show a loss, or its delta, at chosen values of the axes."""


@dataclass(frozen=True)
class Filter:
    """An axis that is neither across nor makes the lines: the page shows one of its values."""

    axis: str
    values: tuple[str, ...]
    chosen: str


@dataclass(frozen=True)
class Choice:
    """The tab, the measure on its figures, and one value of every further axis."""

    tab: str
    measure: Measure
    lines: str | None
    """The axis that makes the lines of the curve, and the rows of the grid."""
    filters: tuple[Filter, ...]
    constant: tuple[str, ...]
    """Axes of one value: said once, and left out of every name."""

    def query(self, **changed: str) -> str:
        """The address's query, defaults written too, so that a link means the same tomorrow.

        The first tab alone goes without its name: it is the page itself.
        """
        state = {} if self.tab == "answer" else {"tab": self.tab}
        if self.tab in MEASURED_TABS:
            state |= {"y": self.measure, **{f.axis: f.chosen for f in self.filters}}
        return urlencode(state | changed)

    def shows(self, settings: Mapping[str, Any]) -> bool:
        """Whether a line, or a panel, of these settings is chosen."""
        return all(f.axis not in settings or text.setting(settings[f.axis]) == f.chosen for f in self.filters)

    @property
    def fixed(self) -> tuple[str, ...]:
        """The axes of which one value is shown: they need not stand in the name of a line."""
        return (*self.constant, *(f.axis for f in self.filters))


def tab_of(table: AblationTable, query: Mapping[str, str]) -> str:
    """The tab that a query asks for. Raises `QueryError` for one that this sweep does not have."""
    tab, known = query.get("tab", "answer"), tabs_of(table)
    if tab not in known:
        raise QueryError(f"this page has no tab {tab!r}; {nearest(tab, known)}")
    return tab


def tabs_of(table: AblationTable) -> list[str]:
    """The tabs of a sweep: learning rates only where they vary."""
    return [tab for tab in TABS if tab != "rates" or len(table.axes.get(RATE, ())) > 1]


def choose(table: AblationTable, curve: HeadCurve | None, query: Mapping[str, str]) -> Choice:
    """The choice that a query asks for, completed. Raises `QueryError` for anything it does not know.

    By default a sweep with controls shows the delta, and of the other axes the value at which the best
    cell lies: that cell is on the page that opens.
    """
    tab = tab_of(table, query)
    measure = _measure(table, query)
    lines = None if tab == "curves" else _lines(table, curve)
    filters = []
    for axis in _varied(table) if tab in MEASURED_TABS else ():
        if axis in (lines, curve and curve.axis):
            continue
        values = tuple(text.setting(value) for value in table.axes[axis])
        chosen = query.get(axis) or _default(table, axis, values)
        if chosen not in values:
            raise QueryError(f"{axis} has no value {chosen!r}; {nearest(chosen, values)}")
        filters.append(Filter(axis, values, chosen))
    known = {"tab", *(("y",) if tab in MEASURED_TABS else ()), *(f.axis for f in filters)}
    for name in query:
        if name not in known:
            raise QueryError(f"this page knows no {name!r}; {nearest(name, known)}")
    return Choice(tab, measure, lines, tuple(filters), constant_axes(table))


def constant_axes(table: AblationTable) -> tuple[str, ...]:
    """The axes of one value."""
    return tuple(axis for axis, values in table.axes.items() if len(values) == 1)


def _measure(table: AblationTable, query: Mapping[str, str]) -> Measure:
    asked = query.get("y")
    if asked is None:
        return "delta" if any(row.control is not None for row in table.treatments) else "loss"
    if asked == "loss":
        return "loss"
    if asked == "delta":
        return "delta"
    raise QueryError(f"y is {asked!r}; {nearest(asked, ('loss', 'delta'))}")


def _varied(table: AblationTable) -> list[str]:
    return [axis for axis, values in table.axes.items() if len(values) > 1]


def _lines(table: AblationTable, curve: HeadCurve | None) -> str | None:
    """The axis that makes the lines: the KV heads where they vary, else the first that is not across.

    Against the learning rate it is the routing heads: each number of them may want another rate.
    """
    others = [axis for axis in _varied(table) if curve is None or axis != curve.axis]
    first = HEADS if curve is not None and curve.axis == RATE else KV_HEADS
    return first if first in others else next(iter(others), None)


def _default(table: AblationTable, axis: str, values: tuple[str, ...]) -> str:
    best = best_cell(table.treatments)
    settings = table.row(best).settings if best is not None else {}
    return text.setting(settings[axis]) if axis in settings else values[0]


def shown_lines(curve: HeadCurve, choice: Choice) -> tuple[CurveLine, ...]:
    """The chosen lines of a curve."""
    return tuple(line for line in curve.lines if choice.shows(line.settings))

"""What one can choose on each tab beside the values of the axes; all of it stands in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headcount.api.results import AblationTable, QueryError
from headcount.api.results.curves import HEADS, KV_HEADS, HeadCurve, best_cell
from headcount.api.results.selection import RATE
from headcount.dashboard import text
from headcount.dashboard.figures import bars
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.figures.head_reads import MOST_HEADS
from headcount.trainer.errors import nearest

MEASURES = {"delta": "Delta", "loss": "Loss"}
MEASURED_TABS = ("heads", "grid", "rates", "curves")
"""Those whose figures are of a loss or of its delta."""
CURVES = {**MEASURES, "training": "Training loss", "pair": "|Δ| of a pair"}
SMOOTHING = {"0": "None", "0.6": "0.6", "0.9": "0.9", "0.97": "0.97"}
"""Weights of the moving average."""
ALL_HEADS = "all"
"""Of the option `head`."""
REFERENCES = {"none": "None", "paper": "Paper"}


@dataclass(frozen=True)
class Option:
    """One choice: `name` in the address, and its values with what they are called on the page."""

    name: str
    label: str
    values: Mapping[str, str]
    chosen: str


def options_of(
    tab: str, table: AblationTable, curve: HeadCurve | None, query: Mapping[str, str]
) -> tuple[Option, ...]:
    """The options of a tab, as a query chooses them. Raises `QueryError` for a value they do not have."""
    found: list[Option] = []
    if tab in MEASURED_TABS:
        measures = CURVES if tab == "curves" else MEASURES
        found.append(_option("y", "Measure", measures, query, _measure(table)))
    if tab in ("heads", "rates") and curve and len(_beside(table, curve)) > 1:
        axes = _beside(table, curve)
        found.append(_option("lines", "Lines", _named(axes), query, default_lines(table, curve) or axes[0]))
    if tab == "grid" and len(varied(table)) > 1:
        found += _grid_axes(table, curve, query)
    if tab in ("heads", "rates", "paired"):
        measure: Measure = "delta" if tab == "paired" or found[0].chosen == "delta" else "loss"
        found.append(
            _option(
                "bars",
                "Bars",
                bars.NAMES,
                query,
                bars.DEFAULT[measure],
            )
        )
    if tab == "curves":
        found.append(_option("smooth", "Smoothing", SMOOTHING, query, "0"))
        if found[0].chosen == "pair":
            seeds = {str(seed): str(seed) for seed in table.seeds}
            found.append(_option("seed", "Seed", seeds, query, next(iter(seeds))))
    if tab == "depth":
        found += _told_apart(table, curve, query)
    if tab == "heads" and curve and curve.axis == HEADS:
        found.append(_option("reference", "Published", REFERENCES, query, "none"))
    return tuple(found)


def varied(table: AblationTable) -> list[str]:
    """The axes of more than one value."""
    return [axis for axis, values in table.axes.items() if len(values) > 1]


def default_lines(table: AblationTable, curve: HeadCurve | None) -> str | None:
    """The axis that makes the lines: the KV heads where they vary, else the first that is not across.

    Against the learning rate it is the routing heads: each number of them may want another rate.
    """
    others = _beside(table, curve)
    first = HEADS if curve is not None and curve.axis == RATE else KV_HEADS
    return first if first in others else next(iter(others), None)


def _beside(table: AblationTable, curve: HeadCurve | None) -> list[str]:
    return [axis for axis in varied(table) if curve is None or axis != curve.axis]


def _measure(table: AblationTable) -> Measure:
    return "delta" if any(row.control is not None for row in table.treatments) else "loss"


def _grid_axes(table: AblationTable, curve: HeadCurve | None, query: Mapping[str, str]) -> list[Option]:
    axes = varied(table)
    across = curve.axis if curve and curve.axis in axes else axes[0]
    columns = _option("columns", "Columns", _named(axes), query, across)
    others = [axis for axis in axes if axis != columns.chosen]
    rows = _option("rows", "Rows", _named(axes), query, KV_HEADS if KV_HEADS in others else others[0])
    if rows.chosen == columns.chosen:  # the columns were changed to what the rows were
        rows = _option("rows", "Rows", _named(axes), {}, across if across in others else others[0])
    return [rows, columns]


def _told_apart(table: AblationTable, curve: HeadCurve | None, query: Mapping[str, str]) -> list[Option]:
    """The cell whose heads are told apart, by its value of the axis across, and one of them or all."""
    found = []
    if curve and len(table.axes[curve.axis]) > 1:
        values = {text.setting(value): text.settings({curve.axis: value}) for value in table.axes[curve.axis]}
        best = best_cell(table.treatments)
        settings = table.row(best).settings if best is not None else {}
        default = text.setting(settings.get(curve.axis))
        found.append(
            _option("of", "Heads of", values, query, default if default in values else next(iter(values)))
        )
    most = max((heads for heads in table.axes.get(HEADS, ()) if isinstance(heads, int)), default=1)
    if most > 1:
        values = {ALL_HEADS: "All"} | {str(head): str(head) for head in range(min(most, MOST_HEADS))}
        found.append(_option("head", "Head", values, query, ALL_HEADS))
    return found


def _named(axes: Sequence[str]) -> dict[str, str]:
    return {axis: text.long(axis) for axis in axes}


def _option(
    name: str, label: str, values: Mapping[str, str], query: Mapping[str, str], default: str
) -> Option:
    chosen = query.get(name, default)
    if chosen not in values:
        raise QueryError(f"{name} is {chosen!r}; {nearest(chosen, values)}")
    return Option(name, label, values, chosen)

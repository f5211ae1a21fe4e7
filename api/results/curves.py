"""The ablation table seen as curves over one axis, and as grids over two."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headcount.api.results.lookup import QueryError
from headcount.api.results.tables import AblationTable, TableRow
from headcount.trainer.errors import nearest

HEADS = "model.routing_heads"
KV_HEADS = "model.kv_heads"


@dataclass(frozen=True)
class CurveLine:
    """The cells that differ in the curve's axis alone."""

    settings: dict[str, Any]
    """The values of all other axes."""
    points: tuple[TableRow | None, ...]
    """One a value of the axis; None where the sweep has no such cell."""
    controls: tuple[TableRow | None, ...]
    """The control of each point: one and the same where the control does not read the axis."""


@dataclass(frozen=True)
class HeadCurve:
    """Loss and delta against one axis, one line for each setting of the others."""

    sweep: str
    version: int
    axis: str
    values: tuple[Any, ...]
    lines: tuple[CurveLine, ...]


@dataclass(frozen=True)
class GridPanel:
    """Two axes at one setting of all others."""

    settings: dict[str, Any]
    cells: tuple[tuple[TableRow | None, ...], ...]
    """Rows by columns; None where the sweep has no such cell."""
    best: int | None
    """The cell with the lowest mean among those with the most seeds."""


@dataclass(frozen=True)
class Grid:
    """Every cell over two axes, one panel for each setting of the others: nothing is averaged or picked."""

    sweep: str
    version: int
    row_axis: str
    column_axis: str
    row_values: tuple[Any, ...]
    column_values: tuple[Any, ...]
    panels: tuple[GridPanel, ...]


def head_curve(table: AblationTable, axis: str | None = None) -> HeadCurve:
    """The table against `axis`: by default the axis of the analysis, else the routing heads, else the first.

    Raises `QueryError` for an axis that the sweep does not vary. A treatment without the axis, since its
    residual stream does not read it, is on no line.
    """
    chosen = _axis(table, axis) if axis else _default_axis(table)
    values = table.axes[chosen]
    by_id = {row.cell: row for row in table.rows}
    lines = []
    for settings, rows in groups(table, table.treatments, [chosen]):
        found = {_key(row.settings[chosen]): row for row in rows}
        points = tuple(found.get(_key(value)) for value in values)
        controls = tuple(by_id[p.control] if p and p.control is not None else None for p in points)
        lines.append(CurveLine(settings, points, controls))
    return HeadCurve(table.sweep, table.version, chosen, values, tuple(lines))


def grid(table: AblationTable, rows: str | None = None, columns: str | None = None) -> Grid:
    """The table over two axes: by default KV heads (down) and the axis of the analysis (across).

    Raises `QueryError` for an axis that the sweep does not vary, and for a sweep of one axis.
    """
    if len(table.axes) < 2:
        raise QueryError(f"sweep {table.sweep!r} varies {len(table.axes)} axis; a grid needs two")
    across = _axis(table, columns) if columns else _default_axis(table, avoid=rows)
    others = [axis for axis in table.axes if axis != across]
    down = _axis(table, rows) if rows else KV_HEADS if KV_HEADS in others else others[0]
    if down == across:
        raise QueryError(f"a grid needs two different axes, but both are {down}")
    panels = []
    for settings, members in groups(table, table.treatments, [down, across]):
        found = {(_key(r.settings[down]), _key(r.settings[across])): r for r in members}
        cells = tuple(
            tuple(found.get((_key(y), _key(x))) for x in table.axes[across]) for y in table.axes[down]
        )
        panels.append(GridPanel(settings, cells, best_cell(members, table.fresh_seeds)))
    return Grid(table.sweep, table.version, down, across, table.axes[down], table.axes[across], tuple(panels))


def _axis(table: AblationTable, name: str) -> str:
    if name not in table.axes:
        raise QueryError(f"sweep {table.sweep!r} has no axis {name!r}; {nearest(name, table.axes)}")
    return name


def _default_axis(table: AblationTable, avoid: str | None = None) -> str:
    axis = main_axis(table.axes, table.analysis, avoid)
    if axis is None:
        raise QueryError(f"sweep {table.sweep!r} varies no axis")
    return axis


def main_axis(axes: Collection[str], analysis: Mapping[str, Any], avoid: str | None = None) -> str | None:
    """The axis of the analysis, else the routing heads, else the first; None where there is no other."""
    wished = (analysis.get("axis"), HEADS, *axes)
    return next((axis for axis in wished if axis in axes and axis != avoid), None)


def groups(
    table: AblationTable, rows: Sequence[TableRow], axes: Sequence[str]
) -> list[tuple[dict[str, Any], list[TableRow]]]:
    """The rows that have all of `axes`, by their settings of the others, in the order of these."""
    found: dict[str, tuple[dict[str, Any], list[TableRow]]] = {}
    for row in rows:
        if all(axis in row.settings for axis in axes):
            others = {a: row.settings[a] for a in table.axes if a not in axes and a in row.settings}
            found.setdefault(repr(others), (others, []))[1].append(row)
    order = {axis: {_key(v): i for i, v in enumerate(values)} for axis, values in table.axes.items()}
    return sorted(found.values(), key=lambda group: [order[a].get(_key(v), -1) for a, v in group[0].items()])


def _key(value: Any) -> str:
    """A value of an axis as something that can be looked up: 1 is 1.0, and lists are values too."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(float(value))
    return json.dumps(value, sort_keys=True)


def best_cell(rows: Sequence[TableRow], fresh_seeds: Collection[int] = ()) -> int | None:
    """The cell with the lowest mean among those with the most seeds; None without a mean.

    Of a search's table, whose `fresh_seeds` are given, the cell that the search chose, once it has a loss at
    such a seed: the lowest of many was also lucky.
    """
    if fresh_seeds:
        rows = [row for row in rows if row.seeds and set(row.seeds) <= set(fresh_seeds)]
    most = max((r.n for r in rows if r.mean is not None), default=0)
    ranked = [(r.mean, r.cell) for r in rows if r.mean is not None and r.n == most]
    return min(ranked)[1] if ranked else None

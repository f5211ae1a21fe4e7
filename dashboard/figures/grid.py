"""The data of the grid: every cell over two axes, its value, n and state."""

from typing import NamedTuple

from headcount.api.results.curves import HEADS, KV_HEADS, Grid, GridPanel
from headcount.api.results.tables import TableRow
from headcount.dashboard import text
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.figures.head_curve import ascending
from headcount.dashboard.figures.table import FigureTable


class GridCell(NamedTuple):
    """One cell at its place."""

    row: int
    column: int
    name: str
    state: str
    value: float | None
    """None where the state forbids one, or has none yet."""
    n: int
    planned: int
    best: bool
    diagonal: bool
    """H = KV."""
    note: str


class GridData(NamedTuple):
    """Everything that the figure shows."""

    row_axis: str
    column_axis: str
    rows: list[str]
    columns: list[str]
    measure: Measure
    cells: list[GridCell]


def grid_data(grid: Grid, panel: GridPanel, measure: Measure) -> GridData:
    """One panel of a grid."""
    heads_by_kv = {grid.row_axis, grid.column_axis} == {HEADS, KV_HEADS}
    down, across = ascending(grid.row_values), ascending(grid.column_values)
    cells = []
    for i, row_at in enumerate(down):
        for j, column_at in enumerate(across):
            if (row := panel.cells[row_at][column_at]) is not None:
                y, x = grid.row_values[row_at], grid.column_values[column_at]
                name = text.settings({grid.column_axis: x, grid.row_axis: y})
                cells.append(_cell(row, i, j, panel, measure, heads_by_kv and y == x, name))
    return GridData(
        grid.row_axis,
        grid.column_axis,
        [text.setting(grid.row_values[at]) for at in down],
        [text.setting(grid.column_values[at]) for at in across],
        measure,
        cells,
    )


def _cell(
    row: TableRow, i: int, j: int, panel: GridPanel, measure: Measure, diagonal: bool, name: str
) -> GridCell:
    if measure == "delta":
        value, n = (row.delta.mean, row.delta.n) if row.delta else (None, 0)
    else:
        value, n = row.mean, row.n
    planned = len({*row.seeds, *row.seeds_missing, *row.seeds_diverged, *row.seeds_failed})
    return GridCell(i, j, name, row.state, value, n, planned, row.cell == panel.best, diagonal, row.note)


def grid_table(data: GridData) -> FigureTable:
    """The same cells to read: a row for each value of the row axis."""
    found = {(cell.row, cell.column): cell for cell in data.cells}
    rows = [
        [name, *(_text(data, found.get((i, j))) for j in range(len(data.columns)))]
        for i, name in enumerate(data.rows)
    ]
    what = "Delta to control" if data.measure == "delta" else "Tail mean"
    return FigureTable(
        [
            f"{text.short(data.row_axis)} \\ {text.short(data.column_axis)}",
            *data.columns,
        ],
        rows,
        f"{what} of each cell, with its n; ★ is the lowest mean.",
        numbers_from=1,
    )


def _text(data: GridData, cell: GridCell | None) -> str:
    if cell is None:
        return text.NOTHING
    if cell.value is None:
        return cell.note or cell.state
    value = text.signed(cell.value) if data.measure == "delta" else text.number(cell.value)
    return f"{'★ ' if cell.best else ''}{value} (n {cell.n})"


def grid_summary(data: GridData) -> str:
    """The figure in words, for those who do not see it."""
    best = next((cell for cell in data.cells if cell.best), None)
    states: dict[str, int] = {}
    for cell in data.cells:
        states[cell.state] = states.get(cell.state, 0) + 1
    counted = ", ".join(f"{count} {state}" for state, count in states.items())
    words = (
        f"Grid of {text.long(data.row_axis)} by {text.long(data.column_axis)}: "
        f"{text.plural(len(data.cells), 'cell')} ({counted})."
    )
    if best and best.value is not None:
        write = text.signed if data.measure == "delta" else text.number
        words += f" Lowest mean loss at {best.name}: {write(best.value)}."
    return words

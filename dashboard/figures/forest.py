"""The forest plot: the delta of each cell with its bar, the lowest first."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results import PairedStatistics, TableRow
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.bars import Bars
from headcount.dashboard.figures.table import FigureTable

MOST_ROWS = 60


class ForestRow(NamedTuple):
    """One comparison."""

    name: str
    mean: float
    low: float | None
    high: float | None
    n: int
    """Pairs."""
    p: float | None
    adjusted_p: float | None
    rejected: bool
    """Whether the family says that the delta is not 0."""


class ForestData(NamedTuple):
    """Everything that the figure shows, the lowest delta first."""

    rows: list[ForestRow]
    bars: str
    """What they show."""
    cells: int
    """With a delta; more than are drawn where there are very many."""
    absent: list[text.Absent]


def forest_data(
    treatments: Sequence[TableRow], statistics: PairedStatistics, bars: Bars, without: Sequence[str] = ()
) -> ForestData:
    """The deltas of these treatments; names leave out the axes `without`."""
    compared = {c.cell: c for c in statistics.comparisons}
    rows, absent = [], []
    for row in treatments:
        name = text.cell_name(row.settings, False, without)
        bar, comparison = bars.of(row), compared.get(row.cell)
        if bar is None or row.delta is None:
            absent.append(text.Absent(name, row.note or (row.delta and row.delta.reason) or row.state))
            continue
        rows.append(
            ForestRow(
                name,
                *bar,
                row.delta.n,
                row.delta.p,
                comparison.adjusted_p if comparison else None,
                bool(comparison and comparison.rejected),
            )
        )
    rows.sort(key=lambda row: row.mean)
    return ForestData(rows[:MOST_ROWS], bars.words, len(rows), absent)


def forest_figure(data: ForestData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    rows = data.rows
    groups = [[row for row in rows if (row.low is None) == bare] for bare in (False, True)]
    zero = {"zeroline": True, "zerolinecolor": theme.MUTED, "zerolinewidth": 1.5}
    names = [theme.plain(row.name) for row in rows]
    return theme.figure(
        [_points(group) for group in groups if group],
        xaxis=theme.axis("Delta to control, nats (negative is better)", tickformat=".3~f", **zero),
        yaxis=theme.axis(showgrid=False, autorange="reversed", categoryarray=names),
        height=max(280, 110 + 22 * len(rows)),
        hovermode="closest",
        nothing=""
        if rows
        else "A delta stands here once a job and its control at the same seed have finished.",
    )


def _points(rows: Sequence[ForestRow]) -> Any:
    """Rows that all have a bar, or all have none: plotly would draw the ends of a bar of length 0."""
    bars = [
        (row.mean - row.low, row.high - row.mean)
        for row in rows
        if row.low is not None and row.high is not None
    ]
    return go.Scatter(
        x=[row.mean for row in rows],
        y=[theme.plain(row.name) for row in rows],
        mode="markers",
        marker={
            "size": 9,
            "color": theme.SERIES[0],
            "symbol": ["square" if row.rejected else "square-open" for row in rows],
            "line": {"width": 1.6, "color": theme.SERIES[0]},
        },
        error_x={
            "type": "data",
            "array": [up for _, up in bars],
            "arrayminus": [down for down, _ in bars],
            "color": theme.SERIES[0],
            "thickness": 1.6,
            "width": 4,
        }
        if bars
        else None,
        hovertext=[_hover(row) for row in rows],
        hoverinfo="text",
        showlegend=False,
        name="delta",
    )


def _hover(row: ForestRow) -> str:
    spread = f" {text.interval(row.low, row.high)}" if row.low is not None else ""
    return (
        f"{theme.plain(row.name)}<br><b>{text.signed(row.mean)}</b>{spread}<br>"
        f"n = {row.n}, p = {text.p_value(row.p)}, corrected {text.p_value(row.adjusted_p)}".replace(
            "<0", "&lt;0"
        )
    )


def forest_table(data: ForestData) -> FigureTable:
    """The same numbers to read."""
    rows = [
        [
            row.name,
            text.signed(row.mean),
            text.signed(row.low),
            text.signed(row.high),
            str(row.n),
            text.p_value(row.p),
            text.p_value(row.adjusted_p),
        ]
        for row in data.rows
    ]
    columns = ["Cell", "Delta", "Bar from", "Bar to", "Pairs", "p", "Corrected p"]
    return FigureTable(columns, rows, f"Delta to the control; bars: {data.bars}.", numbers_from=1)


def forest_summary(data: ForestData) -> str:
    """The figure in words, for those who do not see it."""
    if not data.rows:
        return "Delta of every cell to its control. No pair has a result yet."
    below = sum(row.rejected and row.mean < 0 for row in data.rows)
    above = sum(row.rejected and row.mean > 0 for row in data.rows)
    first, last = data.rows[0], data.rows[-1]
    return (
        f"Delta of {text.plural(len(data.rows), 'cell')} to the control: {below} told to be below 0, "
        f"{above} above. "
        f"Lowest: {first.name}, {text.signed(first.mean)}; highest: {last.name}, {text.signed(last.mean)}."
    )

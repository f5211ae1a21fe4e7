"""The U: loss or delta against the routing heads."""

from collections.abc import Collection

from headcount.api.results.curves import best_cell
from headcount.dashboard import text
from headcount.dashboard.choice import shown_lines
from headcount.dashboard.figures import head_curve as curves
from headcount.dashboard.figures.head_curve_drawing import head_curve_figure
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.grid import grid_figures
from headcount.dashboard.tabs.view import View


def head_figures(view: View) -> list[Figure]:
    """The U, and the grid beside it."""
    return ([curve_figure(view, "heads")] if view.curve else []) + grid_figures(view)


MOST_LINES = 100
"""Of one figure."""


def curve_figure(view: View, name: str, edges: Collection[int] = ()) -> Figure:
    """The chosen lines, for the tab `name`; `edges` are cells whose rate is best, at an end of the grid."""
    table, curve, choice, measure = view.table, view.curve, view.choice, view.measure
    assert curve is not None
    best = best_cell(table.treatments, table.fresh_seeds)
    lines = shown_lines(curve, choice)
    data = curves.head_curve_data(
        curve,
        lines[:MOST_LINES],
        view.bars,
        best,
        choice.fixed,
        view.statistics.shapes if curve.axis == view.statistics.axis else (),
        table.reference,
        edges,
    )
    marks = f"Bars: {data.bars}; small points: one seed each"
    if curves.vertical_range(data):
        marks += "; the longest bars run out of the figure, see the data table"
    if measure == "loss" and any(line.control is not None for line in data.lines):
        marks += "; dotted: the control"
    if any(line.minimum for line in data.lines):
        marks += "; crossed diamond: the minimum of a parabola over log₂, with Fieller's interval"
    if len(lines) > MOST_LINES:
        marks += f"; showing {MOST_LINES} of {len(lines)} lines: choose another axis for them, or filter"
    if table.reference:
        marks += _of_the_paper(data)
    return Figure(
        id=f"{name}-{measure}",
        title=f"{'Delta to the control' if measure == 'delta' else 'Loss'} by {_in_words(curve.axis)}",
        drawn=head_curve_figure(data),
        summary=curves.head_curve_summary(data),
        caption=caption(table, choice, marks, data.absent),
        table=curves.head_curve_table(data),
    )


def _of_the_paper(data: curves.HeadCurveData) -> str:
    if not data.published:
        return "; nothing is published of two of these cells"
    recipe = data.published[0].recipe
    if data.measure == "delta":
        return f"; dashed: published at {recipe}, to the paper's own baseline"
    return f"; dashed: published at {recipe}, each moved by a constant to our line: compare shapes alone"


def _in_words(axis: str) -> str:
    long = text.long(axis)
    return long[0].lower() + long[1:] if axis in text.LONG else long

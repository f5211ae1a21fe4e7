"""What each tab of a sweep's page draws: the answer, the learning rates, the curves, the speed."""

from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, HeadCurve, QueryError, grid
from headcount.api.results.cell_curves import cell_curves, delta_curve
from headcount.api.results.curves import best_cell
from headcount.dashboard import text
from headcount.dashboard.choice import Choice, shown_lines
from headcount.dashboard.figures import cell_curves as steps
from headcount.dashboard.figures import grid as grids
from headcount.dashboard.figures import head_curve as curves
from headcount.dashboard.figures import speed
from headcount.dashboard.figures.grid_drawing import grid_figure
from headcount.dashboard.figures.head_curve import Measure
from headcount.dashboard.figures.head_curve_drawing import head_curve_figure
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.rendering import ROOT

MOST_CURVES = 24
"""Cells whose curves one figure draws; a filter shows the others."""


class View(NamedTuple):
    """What a tab draws from."""

    session: Session
    table: AblationTable
    curve: HeadCurve | None
    """Over the axis that this tab has across; none in a sweep without axes."""
    choice: Choice
    measure: Measure


def answer_figures(view: View) -> list[Figure]:
    """The U and the grid."""
    return ([_curve_figure(view, "heads")] if view.curve else []) + _grid_figures(view)


def rate_figures(view: View) -> list[Figure]:
    """The loss against the learning rate, one line for each number of routing heads."""
    return [_curve_figure(view, "rates")] if view.curve else []


def _curve_figure(view: View, name: str) -> Figure:
    table, curve, choice, measure = view.table, view.curve, view.choice, view.measure
    assert curve is not None
    best = best_cell(table.treatments)
    data = curves.head_curve_data(curve, shown_lines(curve, choice), measure, best, choice.fixed)
    bars = f"Bars: {curves.INTERVALS[measure]}; small points: one seed each"
    if curves.vertical_range(data):
        bars += "; the longest bars run out of the figure, see the data table"
    if measure == "loss" and any(line.control is not None for line in data.lines):
        bars += "; dotted: the control"
    return Figure(
        id=f"{name}-{measure}",
        title=f"{'Delta to the control' if measure == 'delta' else 'Loss'} by {_in_words(curve.axis)}",
        drawn=head_curve_figure(data),
        summary=curves.head_curve_summary(data),
        caption=caption(table, choice, bars, data.absent),
        table=curves.head_curve_table(data),
    )


def _grid_figures(view: View) -> list[Figure]:
    table, choice, measure = view.table, view.choice, view.measure
    try:
        squares = grid(table, rows=choice.lines)
    except QueryError:  # one axis has no grid
        return []
    figures: list[Figure] = []
    for panel in squares.panels:
        if not choice.shows(panel.settings):
            continue
        data = grids.grid_data(squares, panel, measure)
        figures.append(
            Figure(
                id=f"grid-{measure}" + (f"-{len(figures)}" if figures else ""),
                title=f"{'Delta' if measure == 'delta' else 'Loss'} of every cell"
                + (f", {text.settings(panel.settings, choice.fixed)}" if figures else ""),
                drawn=grid_figure(data),
                summary=grids.grid_summary(data),
                caption=caption(table, choice, "★ lowest mean loss of those with the most seeds", []),
                table=grids.grid_table(data),
                kind="grid",
            )
        )
    return figures


def curve_figures(view: View) -> list[Figure]:
    """The loss by step of the chosen cells and their controls, or their delta by step."""
    table, choice, measure = view.table, view.choice, view.measure
    chosen = [row for row in table.treatments if choice.shows(row.settings)]
    controls = [row for row in table.controls if any(row.cell == one.control for one in chosen)]
    shown = chosen[:MOST_CURVES]
    found = cell_curves(view.session, table.sweep, [row.cell for row in (*shown, *controls)])
    lines, absent = [], []
    for row in shown if measure == "delta" else [*shown, *controls]:
        name = text.cell_name(row.settings, row.is_control, choice.fixed)
        curve = found.get(row.cell)
        if curve and measure == "delta":
            control = found.get(row.control) if row.control is not None else None
            curve = delta_curve(curve, control) if control else None
        if curve and curve.steps:
            lines.append(steps.NamedCurve(name, curve, row.is_control))
        else:
            absent.append(f"{name}: nothing to draw yet")
    data = steps.CellCurvesData(measure, lines, absent)
    marks = "Thick: mean over the seeds, where all have come to the step; thin: one seed each; no smoothing"
    if len(chosen) > len(shown):
        marks += f"; showing {len(shown)} of {len(chosen)} cells"
    return [
        Figure(
            id=f"curves-{measure}",
            title=f"{'Delta to the control' if measure == 'delta' else 'Validation loss'} by step",
            drawn=steps.cell_curves_figure(data),
            summary=steps.cell_curves_summary(data),
            caption=caption(table, choice, marks, absent),
            table=steps.cell_curves_table(data),
            csv=f"{ROOT.get()}/api/v1/sweeps/{quote(table.sweep, safe='')}/evaluations.csv",
        )
    ]


def speed_figures(view: View) -> list[Figure]:
    """Tokens a second of every cell."""
    data = speed.speed_data(view.table, view.choice.constant)
    marks = "As trained, evaluations and checkpoints apart; jobs that shared a machine slow each other"
    if data.cells > len(data.bars):
        marks += f"; showing the fastest {len(data.bars)} of {data.cells} cells"
    return [
        Figure(
            id="speed",
            title="Speed of every cell",
            drawn=speed.speed_figure(data),
            summary=speed.speed_summary(data),
            caption=caption(view.table, view.choice, marks, []),
            table=speed.speed_table(data),
            kind="tall",
            csv=f"{ROOT.get()}/api/v1/sweeps/{quote(view.table.sweep, safe='')}/tables/throughput.csv",
        )
    ]


def _in_words(axis: str) -> str:
    long = text.long(axis)
    return long[0].lower() + long[1:] if axis in text.LONG else long


FIGURES: dict[str, Callable[[View], list[Figure]]] = {
    "answer": answer_figures,
    "rates": rate_figures,
    "curves": curve_figures,
    "speed": speed_figures,
}
"""Tab to its figures."""

"""What the page of a sweep shows: its figures, tables and headline, from one reading of the results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from sqlalchemy.orm import Session

from headcount.api.results import (
    AblationTable,
    CellView,
    HeadCurve,
    QueryError,
    SweepView,
    TableRow,
    ablation_table,
    cells,
    grid,
    head_curve,
    sweep_view,
)
from headcount.api.results.comparisons import CellComparison
from headcount.api.results.curves import best_cell
from headcount.api.results.significance import PairedStatistics, paired_statistics
from headcount.dashboard import text
from headcount.dashboard.choice import Choice, choose, shown_lines
from headcount.dashboard.figures import grid as grids
from headcount.dashboard.figures import head_curve as curves
from headcount.dashboard.figures.grid_drawing import grid_figure
from headcount.dashboard.figures.head_curve import Measure
from headcount.dashboard.figures.head_curve_drawing import head_curve_figure
from headcount.dashboard.figures.table import FigureTable
from headcount.dashboard.headline import Headline, headline, shape_sentence
from headcount.dashboard.rendering import ROOT

MOST_NAMED = 6
"""Cells that a caption names as not drawn, before it counts the rest."""


@dataclass(frozen=True)
class Figure:
    """A figure with everything that stands around it."""

    id: str
    title: str
    drawn: dict[str, Any]
    """For plotly.js, in the light page's colours."""
    summary: str
    """In words, for those who do not see it."""
    caption: str
    table: FigureTable
    kind: str = ""


@dataclass(frozen=True)
class PairedRow:
    """One treatment in the paired table."""

    row: TableRow
    comparison: CellComparison | None
    best: bool


@dataclass(frozen=True)
class SweepPage:
    """Everything on the page."""

    sweep: SweepView
    table: AblationTable
    statistics: PairedStatistics
    headline: Headline
    choice: Choice
    figures: tuple[Figure, ...]
    rows: tuple[PairedRow, ...]
    """Treatments, the lowest mean first."""
    shapes: tuple[str, ...]
    cells: tuple[CellView, ...]
    """In the order of the plan, for the completeness by cell and seed."""
    axes: tuple[str, ...]
    """Those that vary: columns of the tables."""
    csv: str
    """Where the API has the ablation table in full precision."""


def sweep_page(
    session: Session, name: str, query: Mapping[str, str], *, every_measure: bool = False
) -> SweepPage:
    """The page of a sweep, with the figures of the measure that the query chooses, or of every one there is.

    Raises `NotFoundError`, and `QueryError` for a query that this sweep does not know.
    """
    sweep, table = sweep_view(session, name), ablation_table(session, name)
    statistics = paired_statistics(table)
    curve = head_curve(table) if table.axes else None
    choice = choose(table, curve, query)
    figures: list[Figure] = []
    measures: tuple[Measure, ...] = (choice.measure,)
    if every_measure and choice.measure == "delta":
        measures = ("delta", "loss")
    for measure in measures:
        figures += [_head_figure(table, curve, choice, measure)] if curve else []
        figures += _grid_figures(table, choice, measure)
    best = best_cell(table.treatments)
    compared = {c.cell: c for c in statistics.comparisons}
    ranked = sorted(table.treatments, key=lambda row: (row.rank is None, row.rank or 0))
    return SweepPage(
        sweep=sweep,
        table=table,
        statistics=statistics,
        headline=headline(sweep, table, statistics),
        choice=choice,
        figures=tuple(figures),
        rows=tuple(PairedRow(row, compared.get(row.cell), row.cell == best) for row in ranked),
        shapes=tuple(
            shape_sentence(line, statistics.axis, choice.constant)
            for line in statistics.shapes
            if statistics.axis and choice.shows(line.settings)
        ),
        cells=cells(session, name),
        axes=tuple(axis for axis in table.axes if axis not in choice.constant),
        csv=f"{ROOT.get()}/api/v1/sweeps/{quote(name, safe='')}/table.csv",
    )


def _head_figure(table: AblationTable, curve: HeadCurve, choice: Choice, measure: Measure) -> Figure:
    best = best_cell(table.treatments)
    data = curves.head_curve_data(curve, shown_lines(curve, choice), measure, best, choice.fixed)
    bars = f"Bars: {curves.INTERVALS[measure]}; small points: one seed each"
    if curves.vertical_range(data):
        bars += "; the longest bars run out of the figure, see the data table"
    if measure == "loss" and any(line.control is not None for line in data.lines):
        bars += "; dotted: the control"
    return Figure(
        id=f"heads-{measure}",
        title=f"{'Delta to the control' if measure == 'delta' else 'Loss'} by {_in_words(curve.axis)}",
        drawn=head_curve_figure(data),
        summary=curves.head_curve_summary(data),
        caption=_caption(table, choice, bars, data.absent),
        table=curves.head_curve_table(data),
    )


def _grid_figures(table: AblationTable, choice: Choice, measure: Measure) -> list[Figure]:
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
                caption=_caption(table, choice, "★ lowest mean loss of those with the most seeds", []),
                table=grids.grid_table(data),
                kind="grid",
            )
        )
    return figures


def _in_words(axis: str) -> str:
    long = text.long(axis)
    return long[0].lower() + long[1:] if axis in text.LONG else long


def _caption(table: AblationTable, choice: Choice, marks: str, absent: list[str]) -> str:
    """n, seeds, filters and data version: what one must know to read or repeat the figure."""
    shown = [f"{text.short(f.axis)}{text.NO_BREAK}{f.chosen}" for f in choice.filters]
    shown += [text.settings({axis: table.axes[axis][0]}) for axis in choice.constant]
    parts = [f"n up to {len(table.seeds)} ({text.seeds(table.seeds)})"]
    parts += [f"Shown at {', '.join(shown)}"] if shown else []
    parts += [marks, f"Data version {table.version}"]
    if absent:
        more = f"; and {len(absent) - MOST_NAMED} more" if len(absent) > MOST_NAMED else ""
        parts.append(f"Not drawn: {'; '.join(absent[:MOST_NAMED])}{more}")
    return ". ".join(parts) + "."

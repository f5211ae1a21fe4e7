"""What the page of a sweep shows: its figures, tables and headline, from one reading of the results."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy.orm import Session

from headcount.api.results import (
    AblationTable,
    CellComparison,
    CellView,
    JobSummary,
    PairedStatistics,
    SweepView,
    TableRow,
    ablation_table,
    best_cell,
    cells,
    head_curve,
    jobs,
    paired_statistics,
    sweep_view,
)
from headcount.api.results.selection import RATE
from headcount.dashboard.choice import TABS, Choice, choose, tab_of, tabs_of
from headcount.dashboard.figures.head_curve import Measure
from headcount.dashboard.headline import Headline, headline, shape_sentence
from headcount.dashboard.panel import Figure
from headcount.dashboard.rendering import ROOT
from headcount.dashboard.tabs import FIGURES, View

MOST_JOBS = 1000
"""Jobs that their tab lists; the API has them all."""


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
    tabs: dict[str, str]
    """Those that this sweep has, by name: their labels."""
    figures: tuple[Figure, ...]
    rows: tuple[PairedRow, ...]
    """Treatments, the lowest mean first."""
    shapes: tuple[str, ...]
    cells: tuple[CellView, ...]
    """In the order of the plan, for the completeness by cell and seed."""
    jobs: tuple[JobSummary, ...]
    """Of the tab of jobs, in the order of dispatch; at most `MOST_JOBS`."""
    axes: tuple[str, ...]
    """Those that vary: columns of the tables."""
    csv: str
    """Where the API has the ablation table in full precision."""


def sweep_page(
    session: Session, name: str, query: Mapping[str, str], *, every_measure: bool = False
) -> SweepPage:
    """The page of a sweep: the tab that the query chooses, with its measure or with every one there is.

    Raises `NotFoundError`, and `QueryError` for a query that this sweep does not know.
    """
    sweep, table = sweep_view(session, name), ablation_table(session, name)
    statistics = paired_statistics(table)
    tab = tab_of(table, query)
    curve = head_curve(table, RATE if tab == "rates" else None) if table.axes else None
    choice = choose(table, curve, query)
    figures: list[Figure] = []
    measures: tuple[Measure, ...] = (choice.measure,)
    if every_measure and choice.measure == "delta":
        measures = ("delta", "loss")
    for measure in measures if tab in FIGURES else ():
        figures += FIGURES[tab](View(session, table, curve, choice, measure))
    best = best_cell(table.treatments)
    compared = {c.cell: c for c in statistics.comparisons}
    ranked = sorted(table.treatments, key=lambda row: (row.rank is None, row.rank or 0))
    return SweepPage(
        sweep=sweep,
        table=table,
        statistics=statistics,
        headline=headline(sweep, table, statistics),
        choice=choice,
        tabs={name: TABS[name] for name in tabs_of(table)},
        figures=tuple(figures),
        rows=tuple(PairedRow(row, compared.get(row.cell), row.cell == best) for row in ranked),
        shapes=tuple(
            shape_sentence(line, statistics.axis, choice.constant)
            for line in statistics.shapes
            if statistics.axis and choice.shows(line.settings)
        ),
        cells=cells(session, name),
        jobs=jobs(session, name, limit=MOST_JOBS).jobs if tab == "jobs" else (),
        axes=tuple(axis for axis in table.axes if axis not in choice.constant),
        csv=f"{ROOT.get()}/api/v1/sweeps/{quote(name, safe='')}/table.csv",
    )

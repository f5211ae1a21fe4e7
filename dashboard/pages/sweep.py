"""What the page of a sweep shows: its figures, tables and headline, from one reading of the results."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import quote

from sqlalchemy.orm import Session

from headcount.api.results import (
    AblationTable,
    CellComparison,
    CellView,
    HeadCurve,
    JobSummary,
    PairedStatistics,
    QueryError,
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
from headcount.api.results.last_attempts import LastAttempt, last_attempts
from headcount.api.results.selection import RATE
from headcount.dashboard.choice import FILTERED_TABS, TABS, Choice, choose, tab_of, tabs_of
from headcount.dashboard.options import MEASURED_TABS, MEASURES
from headcount.dashboard.pages.headline import Headline, headline, shape_sentence
from headcount.dashboard.panel import Figure, named
from headcount.dashboard.rendering import ROOT
from headcount.dashboard.tabs import FIGURES, View
from headcount.dashboard.tabs.view import nothing_kept

MOST_JOBS = 1000
"""Jobs that their tab lists; the API has them all."""


@dataclass(frozen=True)
class PairedRow:
    """One treatment in the paired table."""

    row: TableRow
    comparison: CellComparison | None
    best: bool


class TabLink(NamedTuple):
    """One tab with the query that leads to it: what both tabs know of the view stays as it is chosen."""

    name: str
    label: str
    query: str


@dataclass(frozen=True)
class SweepPage:
    """Everything on the page."""

    sweep: SweepView
    table: AblationTable
    statistics: PairedStatistics
    headline: Headline
    choice: Choice
    tabs: tuple[TabLink, ...]
    """Those that this sweep has."""
    figures: tuple[Figure, ...]
    rows: tuple[PairedRow, ...]
    """Treatments, the lowest mean first."""
    shapes: tuple[str, ...]
    cells: tuple[CellView, ...]
    """Of the tab of the plan, in its order: for the completeness by cell and seed."""
    jobs: tuple[JobSummary, ...]
    """Of the tab of jobs, or of the report, in the order of dispatch; at most `MOST_JOBS`."""
    attempts: Mapping[str, LastAttempt]
    """The newest at each of them, by job."""
    axes: tuple[str, ...]
    """Those that vary: columns of the tables."""
    csv: str
    """Where the API has the ablation table in full precision."""


def sweep_page(
    session: Session,
    name: str,
    query: Mapping[str, str],
    *,
    whole: bool = False,
    read: Callable[[str], bytes | None] = nothing_kept,
    table: AblationTable | None = None,
) -> SweepPage:
    """The page of a sweep: the tab that the query chooses, or where `whole` every table, and no figure.

    `read` opens an artifact by its key: some figures are of what ended jobs left there. `table` is that of
    `table_of`, where it was read already. Raises `NotFoundError`, and `QueryError` for a query that this
    sweep does not know.
    """
    sweep = sweep_view(session, name)
    table = table or table_of(session, name, query)
    statistics = paired_statistics(table)
    tab = tab_of(table, query)
    curve = curve_of(table, tab)
    choice = choose(table, curve, query)
    figures: list[Figure] = []
    if tab in FIGURES and not whole:
        figures = FIGURES[tab](View(session, table, statistics, curve, choice, choice.measure, read))
    return SweepPage(
        sweep=sweep,
        table=table,
        statistics=statistics,
        headline=headline(sweep, table, statistics),
        choice=choice,
        tabs=tuple(_tab_links(table, choice)),
        figures=tuple(figures),
        rows=_paired_rows(table, statistics) if whole or tab == "paired" else (),
        shapes=tuple(
            shape_sentence(line, statistics.axis, choice.constant)
            for line in statistics.shapes
            if statistics.axis and choice.shows(line.settings)
        )
        if tab == "heads"
        else (),
        cells=cells(session, name) if whole or tab == "plan" else (),
        jobs=jobs(session, name, limit=MOST_JOBS).jobs if whole or tab == "jobs" else (),
        attempts=last_attempts(session, name) if whole or tab == "jobs" else {},
        axes=tuple(axis for axis in table.axes if axis not in choice.constant),
        csv=f"{ROOT.get()}/api/v1/sweeps/{quote(name, safe='')}/table.csv",
    )


def figure_of(page: SweepPage, id: str | None) -> Figure:
    """The figure of a page with this id, or its first. Raises `QueryError` where there is none."""
    if not page.figures:
        raise QueryError(f"the tab {page.choice.tab!r} of {page.sweep.name!r} has no figure")
    return page.figures[0] if id is None else named(page.figures, id)


def table_of(session: Session, name: str, query: Mapping[str, str]) -> AblationTable:
    """The table that the page of this query shows. Raises `NotFoundError`."""
    return ablation_table(session, name, with_reference=query.get("reference") == "paper")


def choice_of(table: AblationTable, query: Mapping[str, str]) -> Choice:
    """What a query chooses of a table's page, completed. Raises `QueryError`."""
    return choose(table, curve_of(table, tab_of(table, query)), query)


def curve_of(table: AblationTable, tab: str) -> HeadCurve | None:
    """Over the axis that this tab has across; None in a sweep without axes."""
    return head_curve(table, RATE if tab == "rates" else None) if table.axes else None


def _tab_links(table: AblationTable, choice: Choice) -> Iterator[TabLink]:
    kept = {f.axis: f.chosen for f in choice.filters}
    if choice.option("y") in MEASURES:
        kept["y"] = choice.measure
    curves = {
        is_rates: curve_of(table, "rates" if is_rates else "") for is_rates in (False, RATE in table.axes)
    }
    for tab in tabs_of(table):
        if tab == choice.tab:
            query = choice.query()
        else:
            known = kept if tab in FILTERED_TABS else {}
            if tab not in MEASURED_TABS:
                known = {name: value for name, value in known.items() if name != "y"}
            query = choose(table, curves[tab == "rates"], {"tab": tab} | known).query()
        yield TabLink(tab, TABS[tab], query)


def _paired_rows(table: AblationTable, statistics: PairedStatistics) -> tuple[PairedRow, ...]:
    best = best_cell(table.treatments, table.fresh_seeds)
    compared = {c.cell: c for c in statistics.comparisons}
    ranked = sorted(table.treatments, key=lambda row: (row.rank is None, row.rank or 0))
    return tuple(PairedRow(row, compared.get(row.cell), row.cell == best) for row in ranked)

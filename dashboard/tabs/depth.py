"""How the sites of the chosen cells read the depth, and what each head of one of them reads."""

from headcount.api.results import TableRow
from headcount.api.results.head_reads import head_reads
from headcount.api.results.routing import routing_of_cells
from headcount.dashboard import text
from headcount.dashboard.figures import depth
from headcount.dashboard.figures import head_reads as heads
from headcount.dashboard.options import ALL_HEADS
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.probed import instrument_figures
from headcount.dashboard.tabs.view import View

MOST_LINES = 16
_SOURCES = "by the mean weight over tokens and heads, in most of the jobs; 0 is the oldest source"


def depth_figures(view: View) -> list[Figure]:
    """By site of every chosen cell, and by head of the one that `of` names."""
    chosen = [row for row in view.table.treatments if view.choice.shows(row.settings)]
    of = _told_apart(view, chosen)
    return [
        *_site_figures(view, chosen),
        *_head_figures(view, of),
        *instrument_figures(view, chosen, of),
    ]


def _site_figures(view: View, chosen: list[TableRow]) -> list[Figure]:
    """Entropy and heaviest source by site."""
    found = routing_of_cells(view.session, view.table.sweep)
    lines, absent = [], []
    for row in chosen[:MOST_LINES]:
        name = text.cell_name(row.settings, False, view.choice.fixed)
        sites = found.get(row.cell)
        if sites is None:
            absent.append(text.Absent(name, "no ended job has told its sites"))
        else:
            lines.append(depth.DepthLine(name, sites.entropies, sites.top_sources))
    marks = "At the last step of each job, on the first validation window"
    if len(chosen) > MOST_LINES:
        marks += f"; showing {MOST_LINES} of {len(chosen)} cells"
    summary = depth.depth_summary(lines)
    return [
        Figure(
            id="depth-entropy",
            title="Entropy by site",
            drawn=depth.entropy_figure(lines),
            summary=summary,
            caption=caption(view.table, view.choice, f"{marks}; mean over tokens, heads and jobs", absent),
            table=depth.entropy_table(lines),
        ),
        Figure(
            id="depth-sources",
            title="What each site reads most",
            drawn=depth.sources_figure(lines),
            summary=summary,
            caption=caption(view.table, view.choice, f"{marks}; {_SOURCES}", absent),
            table=depth.sources_table(lines),
            kind="grid",
        ),
    ]


def _told_apart(view: View, chosen: list[TableRow]) -> TableRow | None:
    """The cell whose heads are told apart."""
    of = view.choice.option("of")
    axis = view.curve.axis if view.curve else ""
    fits = (row for row in chosen if of is None or text.setting(row.settings.get(axis)) == of)
    return next(fits, None)


def _head_figures(view: View, row: TableRow | None) -> list[Figure]:
    reads = head_reads(view.session, view.table.sweep, row.cell, view.read) if row else None
    name = text.cell_name(row.settings, False, view.choice.fixed) if row else "no cell"
    head = view.choice.option("head") or ALL_HEADS
    weights = heads.by_distance(reads) if head == ALL_HEADS else heads.by_site(reads, int(head))
    entropy = heads.entropies(reads)
    marks = (
        f"Of {name}, at the last step of its jobs, on the first validation window; mean over tokens and jobs"
    )
    if reads:
        marks += f" ({text.seeds(reads.seeds)})"
    if len(entropy.values) > heads.MOST_HEADS:
        marks += f"; showing {heads.MOST_HEADS} of {len(entropy.values)} heads"
    what = "What each head reads" if head == ALL_HEADS else f"What head {head} reads at each site"
    return [
        _map(view, "depth-heads", f"{what}: {name}", weights, marks),
        _map(view, "depth-head-entropy", f"Entropy by site and head: {name}", entropy, marks),
    ]


def _map(view: View, id: str, title: str, found: heads.HeadMap, marks: str) -> Figure:
    return Figure(
        id=id,
        title=title,
        drawn=heads.map_figure(found),
        summary=heads.map_summary(found),
        caption=caption(view.table, view.choice, marks, []),
        table=heads.map_table(found),
        kind="grid",
    )

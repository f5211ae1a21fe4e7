"""How the sites of the chosen cells read the depth."""

from headcount.api.results.instruments import ENTROPY, TOP_SOURCE, routing_sites
from headcount.dashboard import text
from headcount.dashboard.figures import depth
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View

MOST_LINES = 16
_SOURCES = "by the mean weight over tokens and heads, in most of the jobs; 0 is the oldest source"


def depth_figures(view: View) -> list[Figure]:
    """Entropy and heaviest source by site."""
    found = routing_sites(view.session, view.table.sweep)
    chosen = [row for row in view.table.treatments if view.choice.shows(row.settings)]
    lines, absent = [], []
    for row in chosen[:MOST_LINES]:
        name = text.cell_name(row.settings, False, view.choice.fixed)
        sites = found.get(row.cell)
        if sites is None:
            absent.append(f"{name}: no ended job has told its sites")
        else:
            lines.append(depth.DepthLine(name, sites.means(ENTROPY), sites.modes(TOP_SOURCE)))
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

"""What the routing heads of one cell read: maps by head, and of one head by site."""

from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from headcount.api.results.head_reads import Array, HeadReads
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable

MOST_HEADS = 64
"""Heads that a map has rows for."""

MOST_GAPS = 20
"""Columns up to which lines stand between the cells: among more they would outshine them."""

WEIGHTS = tuple(reversed(theme.CELLS))
"""The scale of weights: the largest is the brightest."""

NOTHING = (
    "A job tells what its heads read when it finishes. None of this cell has: either none has finished, or "
    "its stream does not route by weights, or it was trained before heads were told apart."
)

Values = list[list[float | None]]

TITLES = {
    "head": "Head",
    "site": "Site, from the first sublayer to the head",
    "source": "Source, from the oldest to the newest",
    "distance": "Sources back from the newest; last: the oldest, wherever it lies",
}
"""Of the axes, by what their places are."""


class HeadMap(NamedTuple):
    """Rows of values over columns, both counted from 0."""

    row: str
    column: str
    what: str
    """What the values are, with their unit."""
    values: Values
    """None where a row has no such column; empty where nothing is known."""
    nothing: str = NOTHING
    """Why, then."""


def by_distance(reads: HeadReads | None) -> HeadMap:
    """Each head's weight on the sources by how far back they lie, and in the last column on the oldest,
    wherever that lies: means over the sites that have such a source."""
    found = HeadMap("head", "distance", "mean weight over sites", [])
    if reads is None:
        return found
    longest = max(weights.shape[1] for weights in reads.weights)
    sums = np.zeros((_heads(reads), longest))
    sites = np.zeros_like(sums)
    for weights in reads.weights:
        heads, sources = weights.shape
        at = np.ix_(range(heads), [longest - 1, *reversed(range(sources - 1))])
        sums[at] += weights
        sites[at] += 1
    with np.errstate(invalid="ignore"):
        return found._replace(values=_known(sums / sites))


def by_site(reads: HeadReads | None, head: int) -> HeadMap:
    """One head's weight at each site on each source."""
    found = HeadMap("site", "source", "weight", [])
    if reads is None:
        return found
    if head >= _heads(reads):
        return found._replace(nothing=f"This cell has no head {head}: its last is head {_heads(reads) - 1}.")
    longest = max(weights.shape[1] for weights in reads.weights)
    rows = np.full((len(reads.weights), longest), np.nan)
    for site, weights in enumerate(reads.weights):
        if head < len(weights):
            rows[site, : weights.shape[1]] = weights[head]
    return found._replace(values=_known(rows))


def entropies(reads: HeadReads | None) -> HeadMap:
    """The entropy of each head's weights at each site."""
    found = HeadMap("head", "site", "entropy, nats", [])
    if reads is None:
        return found
    rows = np.full((_heads(reads), len(reads.entropy)), np.nan)
    for site, at in enumerate(reads.entropy):
        rows[: len(at), site] = at
    return found._replace(values=_known(rows))


def _heads(reads: HeadReads) -> int:
    return max(map(len, reads.entropy))


def _known(rows: Array) -> Values:
    return [[None if np.isnan(value) else float(value) for value in row] for row in rows]


def map_figure(found: HeadMap) -> dict[str, Any]:
    """The map, drawn for the light page."""
    shown = found.values[:MOST_HEADS]
    # a row of one value, such as the weight of the only source, would leave no colours for the others
    told = [row for row in shown if len(row) - row.count(None) > 1] or shown
    gap = 1 if max(map(len, shown), default=0) <= MOST_GAPS else 0
    heat = go.Heatmap(
        z=shown,
        x=list(range(len(shown[0]) if shown else 0)),
        y=list(range(len(shown))),
        hovertext=[
            [
                f"{found.row} {row}, {_column(found, at)}<br>{found.what}: <b>{text.number(value)}</b>"
                for at, value in enumerate(values)
            ]
            for row, values in enumerate(shown)
        ],
        hoverinfo="text",
        hoverongaps=False,
        colorscale=WEIGHTS,
        zmin=0,
        zmax=max((value for row in told for value in row if value is not None), default=1),
        xgap=gap,
        ygap=gap,
        colorbar=theme.color_bar(found.what.capitalize()),
    )
    return theme.figure(
        [heat] if shown else [],
        xaxis=theme.axis(
            TITLES[found.column], showgrid=False, **theme.counted(max(map(len, shown), default=0))
        ),
        yaxis=theme.axis(
            TITLES[found.row], showgrid=False, autorange="reversed", **theme.counted(len(shown))
        ),
        nothing="" if shown else found.nothing,
    )


def map_table(found: HeadMap) -> FigureTable:
    """The map to read."""
    columns = [found.row.capitalize(), found.column.capitalize(), found.what.capitalize()]
    rows = [
        [str(row), _column(found, at), text.number(value)]
        for row, values in enumerate(found.values[:MOST_HEADS])
        for at, value in enumerate(values)
        if value is not None
    ]
    return FigureTable(columns, rows, f"The {found.what} by {found.row} and {found.column}.", numbers_from=2)


def map_summary(found: HeadMap) -> str:
    """The map in words, for those who do not see it."""
    if not found.values:
        return found.nothing
    parts = []
    for row, values in enumerate(found.values[:MOST_HEADS]):
        known = [(value, at) for at, value in enumerate(values) if value is not None]
        if known:
            value, at = max(known)
            parts.append(f"{found.row} {row} {text.number(value)} at {_column(found, at)}")
    return f"{found.what.capitalize()}, the largest of each {found.row}: {'; '.join(parts)}."


def _column(found: HeadMap, at: int) -> str:
    if found.column != "distance":
        return f"{found.column} {at}"
    return "the oldest" if at == len(found.values[0]) - 1 else f"{at} back" if at else "the newest"

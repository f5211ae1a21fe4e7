"""What probes found, by site, and scores on downstream tasks."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from headcount.api.results.probed import Probed
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable

MOST_SITES = 10
"""Of a map of heads, the first ones, as the publication has them."""

DIVERGING = "RdBu_r"
"""The scale of differences: 0 lies in its middle."""


class ProbedLine(NamedTuple):
    """One cell."""

    name: str
    found: Probed


class Score(NamedTuple):
    """One cell on one metric of one task."""

    name: str
    task: str
    mean: float
    half: float | None
    """Standard error over the items of the task."""
    n: int


def disagreement_figure(lines: Sequence[ProbedLine]) -> dict[str, Any]:
    """Disagreement by site, and dashed what random queries of the same norm would have."""
    traces = []
    for index, line in enumerate(lines):
        sites = [site.site for site in line.found.sites]
        for dash, what, values in (
            ("solid", line.name, [site.disagreement for site in line.found.sites]),
            ("dash", f"{line.name}: null", [site.null for site in line.found.sites]),
        ):
            traces.append(_line(index, what, dash, sites, values))
    return theme.figure(
        traces,
        xaxis=_sites_axis(lines),
        yaxis=theme.axis("Width disagreement, nats", rangemode="tozero"),
        hovermode="closest",
    )


def oldest_figure(lines: Sequence[ProbedLine]) -> dict[str, Any]:
    """The weight of the oldest source by site."""
    traces = [
        _line(
            index,
            line.name,
            "solid",
            [site.site for site in line.found.sites],
            [site.oldest_weight for site in line.found.sites],
        )
        for index, line in enumerate(lines)
    ]
    return theme.figure(
        traces,
        xaxis=_sites_axis(lines),
        yaxis=theme.axis("Weight of the oldest source", rangemode="tozero"),
        hovermode="closest",
    )


def deviation_figure(found: Probed) -> dict[str, Any]:
    """A row a head, a column for each source of each of the first sites: weight less the heads' mean."""
    sites = found.sites[:MOST_SITES]
    rows = np.concatenate([site.deviation for site in sites]).T
    columns = [f"{site.site}·{source}" for site in sites for source in range(len(site.weights))]
    largest = float(np.abs(rows).max()) or 1.0
    heat = go.Heatmap(
        z=rows.tolist(),
        x=columns,
        y=list(range(len(rows))),
        hovertext=[
            [
                f"head {head}, site {column.replace('·', ', source ')}: <b>{text.signed(value)}</b>"
                for column, value in zip(columns, row, strict=True)
            ]
            for head, row in enumerate(rows.tolist())
        ],
        hoverinfo="text",
        colorscale=DIVERGING,
        zmin=-largest,
        zmax=largest,
        colorbar=theme.color_bar("Weight less the mean of the heads"),
    )
    return theme.figure(
        [heat],
        xaxis=theme.axis("Site · source, from the oldest source to the newest", showgrid=False),
        yaxis=theme.axis("Head", showgrid=False, autorange="reversed", **theme.counted(len(rows))),
    )


def scores_figure(scores: Sequence[Score]) -> dict[str, Any]:
    """A marker a cell and task, with the standard error over items."""
    names = list(dict.fromkeys(score.name for score in scores))
    traces = []
    for index, task in enumerate(dict.fromkeys(score.task for score in scores)):
        own = [score for score in scores if score.task == task]
        color = theme.SERIES[index % len(theme.SERIES)]
        traces.append(
            go.Scatter(
                x=[score.mean for score in own],
                y=[theme.plain(score.name) for score in own],
                error_x={"type": "data", "array": [score.half or 0.0 for score in own], "color": color},
                mode="markers",
                marker={"size": 9, "color": color, "symbol": theme.SYMBOLS[index % len(theme.SYMBOLS)]},
                hovertext=[f"{theme.plain(s.name)}<br>{s.task}: <b>{text.number(s.mean)}</b>" for s in own],
                hoverinfo="text",
                name=theme.plain(task),
            )
        )
    return theme.figure(
        traces,
        xaxis=theme.axis("Score, mean over seeds"),
        yaxis=theme.axis(categoryorder="array", categoryarray=[theme.plain(n) for n in reversed(names)]),
        hovermode="closest",
    )


def probed_table(lines: Sequence[ProbedLine]) -> FigureTable:
    """Disagreement, null and the oldest source's weight to read."""
    rows = [
        [
            line.name,
            str(site.site),
            *(text.number(v) for v in (site.disagreement, site.null, site.oldest_weight)),
        ]
        for line in lines
        for site in line.found.sites
    ]
    columns = ["Cell", "Site", "Disagreement", "Null", "Weight of the oldest"]
    return FigureTable(columns, rows, "What probes found at each site.", numbers_from=1)


def deviation_table(found: Probed) -> FigureTable:
    """The map to read."""
    rows = [
        [str(site.site), str(source), str(head), text.signed(float(value))]
        for site in found.sites[:MOST_SITES]
        for source, of_heads in enumerate(site.deviation)
        for head, value in enumerate(of_heads)
    ]
    columns = ["Site", "Source", "Head", "Deviation"]
    return FigureTable(columns, rows, "Weight of each head less the heads' mean.", numbers_from=3)


def probed_summary(lines: Sequence[ProbedLine]) -> str:
    """The lines in words, for those who do not see them."""
    parts = []
    for line in lines:
        sites = line.found.sites
        own, null = (float(np.mean([getattr(s, name) for s in sites])) for name in ("disagreement", "null"))
        parts.append(
            f"{line.name}: {text.number(own)} nats against {text.number(null)} of random queries over "
            f"{len(sites)} sites; the oldest source weighs {text.number(sites[-1].oldest_weight)} at the last"
        )
    return "Width disagreement. " + "; ".join(parts) + "."


def deviation_summary(name: str, found: Probed) -> str:
    largest = max(found.sites[:MOST_SITES], key=lambda site: float(np.abs(site.deviation).max()))
    source, head = np.unravel_index(int(np.abs(largest.deviation).argmax()), largest.deviation.shape)
    value = float(largest.deviation[source, head])
    return (
        f"How heads of {name} differ: most at site {largest.site}, where head {head} weighs source {source} "
        f"by {text.signed(value)} beside the heads' mean."
    )


def _line(index: int, name: str, dash: str, sites: list[int], values: list[float]) -> go.Scatter:
    color = theme.SERIES[index % len(theme.SERIES)]
    name = theme.plain(name)
    return go.Scatter(
        x=sites,
        y=values,
        mode="lines+markers",
        line={"color": color, "width": 2, "dash": dash},
        marker={"size": 6, "color": color, "symbol": theme.SYMBOLS[index % len(theme.SYMBOLS)]},
        hovertext=[
            f"{name}<br>site {s}: <b>{text.number(v)}</b>" for s, v in zip(sites, values, strict=True)
        ],
        hoverinfo="text",
        name=name,
    )


def _sites_axis(lines: Sequence[ProbedLine]) -> dict[str, Any]:
    last = max((line.found.sites[-1].site for line in lines), default=0)
    return theme.axis("Site, from the first sublayer to the head", **theme.counted(last + 1))

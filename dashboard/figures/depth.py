"""How the sites of a model read the depth: the entropy of their weights, and the source that weighs most."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable

MOST_LABELS = 16
"""Sites up to which each has its number written on the map: more have no room for it."""

NOTHING = "A cell is drawn here once one of its jobs has ended, where its stream routes by weights."
"""What would fill these figures."""


class DepthLine(NamedTuple):
    """One cell, at the last step of its jobs."""

    name: str
    entropy: tuple[float | None, ...]
    """By site, nats, mean over the cell's jobs: 0 where one source has all the weight, None without a finite
    number."""
    top_source: tuple[int | None, ...]
    """By site: the source that weighs most in most of the jobs, 0 the oldest; None where none is known."""


def entropy_figure(lines: Sequence[DepthLine]) -> dict[str, Any]:
    """Entropy by site, drawn for the light page."""
    traces = []
    for index, line in enumerate(lines):
        color, name = theme.SERIES[index % len(theme.SERIES)], theme.plain(line.name)
        traces.append(
            go.Scatter(
                x=list(range(len(line.entropy))),
                y=list(line.entropy),
                mode="lines+markers",
                line={"color": color, "width": 2},
                marker={"size": 6, "color": color, "symbol": theme.SYMBOLS[index % len(theme.SYMBOLS)]},
                hovertext=[
                    f"{name}<br>site {site}: <b>{text.number(value)}</b>"
                    for site, value in enumerate(line.entropy)
                ],
                hoverinfo="text",
                name=name,
            )
        )
    return theme.figure(
        traces,
        xaxis=theme.axis(
            "Site, from the first sublayer to the head",
            **theme.counted(max((len(line.entropy) for line in lines), default=0)),
        ),
        yaxis=theme.axis("Entropy over sources, nats", rangemode="tozero"),
        hovermode="closest",
        nothing="" if traces else NOTHING,
    )


def sources_figure(lines: Sequence[DepthLine]) -> dict[str, Any]:
    """The heaviest source of every site, a row for each cell, drawn for the light page."""
    sites = max((len(line.top_source) for line in lines), default=0)
    rows = [[*line.top_source, *[None] * (sites - len(line.top_source))] for line in lines]
    names = [theme.plain(line.name) for line in lines]
    last = max((source or 0 for line in lines for source in line.top_source), default=0) or 1
    traces = [
        go.Heatmap(
            z=rows,
            x=list(range(sites)),
            y=names,
            hovertext=[
                [
                    f"{name}<br>site {site} reads most from source <b>{source}</b>"
                    for site, source in enumerate(row)
                ]
                for name, row in zip(names, rows, strict=True)
            ],
            hoverinfo="text",
            colorscale=theme.CELLS,
            zmin=0,
            zmax=last,
            xgap=1,
            ygap=2,
            hoverongaps=False,
            colorbar=theme.color_bar("Source, 0 the oldest"),
        )
    ]
    if sites <= MOST_LABELS:
        cells = [
            (site, name, source)
            for name, line in zip(names, lines, strict=True)
            for site, source in enumerate(line.top_source)
            if source is not None
        ]
        traces.append(
            go.Scatter(
                x=[site for site, _, _ in cells],
                y=[name for _, name, _ in cells],
                text=[str(source) for _, _, source in cells],
                mode="text",
                textfont={"size": 11, "color": [theme.cell_ink(source / last) for _, _, source in cells]},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    return theme.figure(
        traces if lines else [],
        xaxis=theme.axis("Site, from the first sublayer to the head", showgrid=False, **theme.counted(sites)),
        yaxis=theme.axis(showgrid=False, autorange="reversed"),
        nothing="" if lines else NOTHING,
    )


def entropy_table(lines: Sequence[DepthLine]) -> FigureTable:
    """The entropies to read."""
    rows = [
        [line.name, str(site), text.number(value)]
        for line in lines
        for site, value in enumerate(line.entropy)
    ]
    return FigureTable(
        ["Cell", "Site", "Entropy"], rows, "Entropy of each site's weights, nats.", numbers_from=1
    )


def sources_table(lines: Sequence[DepthLine]) -> FigureTable:
    """The heaviest sources to read."""
    rows = [
        [line.name, str(site), text.NOTHING if top is None else str(top)]
        for line in lines
        for site, top in enumerate(line.top_source)
    ]
    return FigureTable(
        ["Cell", "Site", "Source"],
        rows,
        "The source that weighs most at each site; 0 is the oldest.",
        numbers_from=1,
    )


def depth_summary(lines: Sequence[DepthLine]) -> str:
    """Both figures in words, for those who do not see them."""
    if not lines:
        return "No ended job has told how its sites read the depth."
    parts = []
    for line in lines:
        known = [value for value in line.entropy if value is not None]
        mean = text.number(sum(known) / len(known) if known else None)
        parts.append(
            f"{line.name}: mean entropy {mean} nats over {len(known)} sites, "
            f"{text.plural(len({*line.top_source} - {None}), 'source')} the heaviest somewhere"
        )
    return "How sites read the depth. " + "; ".join(parts) + "."

"""How long a job of each cell was forecast to take, by the other cells, against how long it took."""

from collections.abc import Iterable, Mapping
from statistics import mean, median
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results.timeline import Span
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable
from headcount.dashboard.figures.timeline import duration


class ForecastPoint(NamedTuple):
    """One cell with jobs that one attempt trained from start to end."""

    name: str
    forecast: float
    """Seconds of one job: its FLOPs at the median rate of the other cells' jobs, as a plan reckons."""
    actual: float
    """Seconds, mean over its jobs."""
    n: int


def forecast_points(spans: Iterable[Span], names: Mapping[int, str]) -> list[ForecastPoint]:
    """The points of all cells, once two cells have such a job."""
    by_cell: dict[int, list[Span]] = {}
    for span in spans:
        if span.cell is not None and span.cause == "finished" and not span.start_step and span.seconds:
            by_cell.setdefault(span.cell, []).append(span)
    points = []
    for cell, own in by_cell.items():
        rates = [
            s.flops / s.seconds for other, all in by_cell.items() if other != cell for s in all if s.seconds
        ]
        if rates and own[0].flops:
            taken = [s.seconds for s in own if s.seconds]
            points.append(ForecastPoint(names[cell], own[0].flops / median(rates), mean(taken), len(own)))
    return points


def forecast_figure(points: list[ForecastPoint]) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    ends = [min(min(p.forecast, p.actual) for p in points), max(max(p.forecast, p.actual) for p in points)]
    room = 0.06 * (ends[1] - ends[0]) or 0.06 * ends[1]
    bounds = [ends[0] - room, ends[1] + room]
    traces = [
        go.Scatter(
            x=bounds,
            y=bounds,
            mode="lines",
            line={"color": theme.MUTED, "width": 1.2, "dash": "dot"},
            hoverinfo="skip",
            name="as forecast",
        ),
        go.Scatter(
            x=[p.forecast for p in points],
            y=[p.actual for p in points],
            mode="markers",
            marker={"size": 9, "color": theme.SERIES[0], "opacity": 0.75},
            hovertext=[
                f"{theme.plain(p.name)}, n = {p.n}<br><b>{duration(p.actual)}</b>, forecast "
                f"{duration(p.forecast)}"
                for p in points
            ],
            hoverinfo="text",
            name="a cell",
        ),
    ]
    return theme.figure(
        traces,
        xaxis=theme.axis("Forecast, seconds a job", range=bounds),
        yaxis=theme.axis("Actual, seconds a job", range=bounds),
        hovermode="closest",
    )


def forecast_table(points: list[ForecastPoint]) -> FigureTable:
    """The same numbers to read."""
    rows = [
        [p.name, f"{p.forecast:.1f}", f"{p.actual:.1f}", f"{p.actual / p.forecast:.2f}", str(p.n)]
        for p in points
    ]
    columns = ["Cell", "Forecast, s", "Actual, s", "Actual / forecast", "n"]
    return FigureTable(columns, rows, "Seconds of one job of each cell.", numbers_from=1)


def forecast_summary(points: list[ForecastPoint]) -> str:
    """The figure in words, for those who do not see it."""
    ratios = sorted(p.actual / p.forecast for p in points)
    return (
        f"Actual against forecast time of a job, for {text.plural(len(points), 'cell')}: actual times are "
        f"{ratios[0]:.2f} to {ratios[-1]:.2f} of the forecast, {median(ratios):.2f} in the middle."
    )

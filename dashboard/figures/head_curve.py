"""The U: loss or delta against the number of routing heads, one line for each number of KV heads."""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import plotly.graph_objects as go

from headcount.api.results.curves import CurveLine, HeadCurve
from headcount.api.results.tables import TableRow
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable

Measure = Literal["loss", "delta"]

INTERVALS = {
    "loss": "± 1 standard error between seeds",
    "delta": "95\u00a0%\u00a0t\u00a0interval, paired by seed",
}
"""What the bars show, by measure."""


class HeadPoint(NamedTuple):
    """One cell on its line."""

    position: float
    """Along the axis; see `positions`."""
    value: Any
    """Of the axis."""
    mean: float
    low: float | None
    high: float | None
    """Ends of the bar; None with one seed."""
    n: int
    seeds: tuple[int, ...]
    seed_values: tuple[float, ...]
    """One a seed: its loss, or its delta."""
    best: bool


class HeadLine(NamedTuple):
    """The cells of one setting of all other axes."""

    name: str
    points: list[HeadPoint]
    control: float | None
    """Mean loss of the control, where one control serves the whole line and the measure is the loss."""


class HeadCurveData(NamedTuple):
    """Everything that the figure shows."""

    axis: str
    measure: Measure
    ticks: list[float]
    labels: list[str]
    lines: list[HeadLine]
    absent: list[str]
    """Cells that are not drawn, each with the reason."""


def positions(values: Sequence[Any]) -> list[float]:
    """Where values stand along the axis: numbers above 0 by their logarithm to base 2, others evenly."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
        return [math.log2(v) for v in values]
    return [float(i) for i in range(len(values))]


def head_curve_data(
    curve: HeadCurve,
    lines: Sequence[CurveLine],
    measure: Measure,
    best: int | None,
    without: Sequence[str] = (),
) -> HeadCurveData:
    """The chosen lines of a curve. `best` is the cell to mark; names leave out the axes `without`."""
    where = positions(curve.values)
    drawn, absent = [], []
    for line in lines:
        name = text.settings(line.settings, without) or "all cells"
        points = []
        for position, value, row in zip(where, curve.values, line.points, strict=True):
            point = row and _point(position, value, row, measure, row.cell == best)
            if point:
                points.append(point)
            else:
                cell = text.settings({curve.axis: value, **line.settings}, without)
                absent.append(f"{cell}: {_reason(row, measure)}")
        drawn.append(HeadLine(name, points, _control(line) if measure == "loss" else None))
    return HeadCurveData(curve.axis, measure, where, [text.setting(v) for v in curve.values], drawn, absent)


def _point(position: float, value: Any, row: TableRow, measure: Measure, best: bool) -> HeadPoint | None:
    if measure == "loss":
        if row.mean is None:
            return None
        low, high = (row.mean - row.se, row.mean + row.se) if row.se is not None else (None, None)
        return HeadPoint(position, value, row.mean, low, high, row.n, row.seeds, row.losses, best)
    delta = row.delta
    if delta is None or delta.mean is None:
        return None
    return HeadPoint(
        position, value, delta.mean, delta.low, delta.high, delta.n, delta.seeds, delta.deltas, best
    )


def _reason(row: TableRow | None, measure: Measure) -> str:
    if row is None:
        return "not in this sweep"
    if row.note:
        return row.note
    if measure == "delta" and row.delta is not None and row.mean is not None:
        return row.delta.reason or "no delta"
    return row.state


def _control(line: CurveLine) -> float | None:
    controls = {c.cell: c.mean for c in line.controls if c}
    return next(iter(controls.values())) if len(controls) == 1 else None


def head_curve_figure(data: HeadCurveData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    gaps = [b - a for a, b in zip(data.ticks, data.ticks[1:], strict=False)]
    # lines at the same H stand a little apart, so that their bars can be told from each other
    step = min([*gaps, 1.0]) * min(0.08, 0.3 / max(1, len(data.lines)))
    traces: list[Any] = []
    for i, line in enumerate(data.lines):
        shift = (i - (len(data.lines) - 1) / 2) * step
        traces += _line_traces(data, line, i, shift, step)
    if data.measure == "delta":
        zero = {"zeroline": True, "zerolinecolor": theme.MUTED, "zerolinewidth": 1.5}
        vertical = theme.axis("Delta to control, nats", tickformat=".3~f", **zero)
    else:
        vertical = theme.axis("Validation loss, nats (tail mean)", tickformat=".3~f")
    if not any(line.points for line in data.lines):
        vertical |= {"showticklabels": False, "showgrid": False, "zeroline": False, "title": {"text": ""}}
    if any(line.control is not None for line in data.lines):
        traces.append(
            go.Scatter(
                x=[None], y=[None], mode="lines", line={"color": theme.MUTED, "dash": "dot"}, name="control"
            )
        )
    ends = [min(data.ticks) - 0.35 * max(step, 0.6), max(data.ticks) + 0.35 * max(step, 0.6)]
    return theme.figure(
        traces,
        xaxis=theme.axis(
            text.long(data.axis),
            tickvals=data.ticks,
            ticktext=list(map(theme.plain, data.labels)),
            range=ends,
        ),
        yaxis=vertical,
        hovermode="closest",
        annotations=[] if any(line.points for line in data.lines) else [theme.NO_RESULT],
    )


def _line_traces(data: HeadCurveData, line: HeadLine, index: int, shift: float, step: float) -> list[Any]:
    color = theme.SERIES[index % len(theme.SERIES)]
    signed = data.measure == "delta"
    x = [p.position + shift for p in line.points]
    traces = [
        go.Scatter(
            x=[p.position + shift + 0.4 * step for p in line.points for _ in p.seeds],
            y=[value for p in line.points for value in p.seed_values],
            mode="markers",
            marker={"size": 5, "color": color, "opacity": 0.5},
            hovertext=[
                f"{_at(data, line, p)}<br>seed {seed}: {text.signed(v) if signed else text.number(v)}"
                for p in line.points
                for seed, v in zip(p.seeds, p.seed_values, strict=True)
            ],
            hoverinfo="text",
            legendgroup=line.name,
            showlegend=False,
            name=theme.plain(line.name),
        )
    ]
    if line.control is not None:
        traces.append(
            go.Scatter(
                x=[data.ticks[0] - 0.2, data.ticks[-1] + 0.2],
                y=[line.control, line.control],
                mode="lines",
                line={"color": color, "width": 1.2, "dash": "dot"},
                hovertext=f"control of {theme.plain(line.name)}<br>{text.number(line.control)}",
                hoverinfo="text",
                legendgroup=line.name,
                showlegend=False,
                name=theme.plain(line.name),
            )
        )
    traces.append(
        go.Scatter(
            x=x,
            y=[p.mean for p in line.points],
            error_y={
                "type": "data",
                "array": [0 if p.high is None else p.high - p.mean for p in line.points],
                "arrayminus": [0 if p.low is None else p.mean - p.low for p in line.points],
                "color": color,
                "thickness": 1.4,
                "width": 4,
            },
            mode="lines+markers",
            line={"color": color, "width": 2.2},
            marker={"size": 8, "color": color, "symbol": theme.SYMBOLS[index % len(theme.SYMBOLS)]},
            hovertext=[_hover(data, line, p) for p in line.points],
            hoverinfo="text",
            legendgroup=line.name,
            name=theme.plain(line.name),
        )
    )
    best = [(a, p) for a, p in zip(x, line.points, strict=True) if p.best]
    if best:
        traces.append(
            go.Scatter(
                x=[a for a, _ in best],
                y=[p.mean for _, p in best],
                mode="markers",
                marker={"size": 17, "color": color, "symbol": "circle-open", "line": {"width": 2}},
                hoverinfo="skip",
                legendgroup=line.name,
                showlegend=False,
                name="lowest",
            )
        )
    return traces


def _at(data: HeadCurveData, line: HeadLine, point: HeadPoint) -> str:
    return theme.plain(f"{text.short(data.axis)} {text.setting(point.value)} · {line.name}")


def _hover(data: HeadCurveData, line: HeadLine, point: HeadPoint) -> str:
    known = point.low is not None and point.high is not None
    if data.measure == "delta":
        spread = f" {text.interval(point.low, point.high)}" if known else ""
        value = f"<b>{text.signed(point.mean)}</b>{spread}"
    else:
        spread = f" ± {text.number(point.high - point.mean)}" if known and point.high is not None else ""
        value = f"<b>{text.number(point.mean)}</b>{spread}"
    lowest = "<br>lowest of all cells" if point.best else ""
    return f"{_at(data, line, point)}<br>{value}<br>n = {point.n}, {text.seeds(point.seeds)}{lowest}"


def head_curve_table(data: HeadCurveData) -> FigureTable:
    """The same numbers to read."""
    write = text.signed if data.measure == "delta" else text.number
    rows = [
        [line.name, text.setting(p.value), write(p.mean), write(p.low), write(p.high), str(p.n)]
        for line in data.lines
        for p in line.points
    ]
    bar = INTERVALS[data.measure]
    return FigureTable(
        ["Line", text.long(data.axis), data.measure.capitalize(), "Bar from", "Bar to", "n"],
        rows,
        f"{data.measure.capitalize()} by {text.long(data.axis)}; bars: {bar}.",
        numbers_from=1,
    )


def head_curve_summary(data: HeadCurveData) -> str:
    """The figure in words, for those who do not see it."""
    parts = []
    for line in data.lines:
        if not line.points:
            parts.append(f"{line.name}: no result yet")
            continue
        low = min(line.points, key=lambda p: p.mean)
        write = text.signed if data.measure == "delta" else text.number
        first, last = line.points[0], line.points[-1]
        parts.append(
            f"{line.name}: {write(first.mean)} at {text.setting(first.value)}, lowest {write(low.mean)} at "
            f"{text.setting(low.value)}, {write(last.mean)} at {text.setting(last.value)}"
        )
    what = "Delta to control" if data.measure == "delta" else "Validation loss"
    return f"{what} against {text.long(data.axis)}. " + "; ".join(parts) + "."

"""The drawing of the U: lines with bars, seed points, controls, and the lowest cell ringed."""

from typing import Any

import plotly.graph_objects as go

from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.fitted import Minimum
from headcount.dashboard.figures.head_curve import HeadCurveData, HeadLine, HeadPoint, vertical_range
from headcount.dashboard.figures.published import PublishedLine


def head_curve_figure(data: HeadCurveData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    gaps = [b - a for a, b in zip(data.ticks, data.ticks[1:], strict=False)]
    # lines at the same H stand a little apart, so that their bars can be told from each other
    step = min([*gaps, 1.0]) * min(0.08, 0.3 / max(1, len(data.lines)))
    hollow = not any(line.points for line in data.lines)
    traces: list[Any] = []
    for i, line in enumerate(data.lines):
        shift = (i - (len(data.lines) - 1) / 2) * step
        traces += _line_traces(data, line, i, shift, step)
        if line.minimum:
            traces.append(_minimum_trace(line, line.minimum, theme.SERIES[i % len(theme.SERIES)]))
    traces += [_published_trace(data, line) for line in data.published]
    if data.published:
        look = {"color": theme.MUTED, "width": 1.4, "dash": "dash"}
        traces.append(_legend_entry(f"paper: {theme.plain(data.published[0].recipe)}", line=look))
    if any(line.minimum for line in data.lines):
        traces.append(_legend_entry("fitted minimum", marker=_MINIMUM | {"color": theme.MUTED}))
    if any(p.at_edge for line in data.lines for p in line.points):
        look = {"symbol": "square-open", "size": 11, "color": theme.MUTED}
        traces.append(_legend_entry("best at an edge of the rates", marker=look))
    if data.measure == "delta":
        zero = {"zeroline": True, "zerolinecolor": theme.MUTED, "zerolinewidth": 1.5}
        vertical = theme.axis("Delta to control, nats", tickformat=".3~f", **zero)
    else:
        vertical = theme.axis("Validation loss, nats (tail mean)", tickformat=".3~f")
    if hollow:
        vertical |= {"showticklabels": False, "showgrid": False, "zeroline": False, "title": {"text": ""}}
    else:
        vertical["range"] = vertical_range(data)
    if any(line.control is not None for line in data.lines):
        traces.append(_legend_entry("control", line={"color": theme.MUTED, "dash": "dot"}))
    ends = [min(data.ticks) - 0.35 * max(step, 0.6), max(data.ticks) + 0.35 * max(step, 0.6)]
    return theme.figure(
        traces,
        xaxis=theme.axis(
            text.long(data.axis),
            tickvals=data.ticks,
            ticktext=list(map(theme.plain, data.labels)),
            range=ends,
            showgrid=not hollow,
        ),
        yaxis=vertical,
        hovermode="closest",
        nothing="A point stands here once a job of its cell has finished." if hollow else "",
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
            meta="one seed",
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
                meta="control",
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
    best = [(at, p.mean) for at, p in zip(x, line.points, strict=True) if p.best]
    edge = [(at, p.mean) for at, p in zip(x, line.points, strict=True) if p.at_edge]
    rings = ((best, "circle-open", "lowest"), (edge, "square-open", "best at an edge"))
    return traces + [_ring(line, places, symbol, what, color) for places, symbol, what in rings if places]


def _ring(line: HeadLine, places: list[tuple[float, float]], symbol: str, what: str, color: str) -> Any:
    return go.Scatter(
        x=[x for x, _ in places],
        y=[y for _, y in places],
        mode="markers",
        meta=what,
        marker={"size": 17, "color": color, "symbol": symbol, "line": {"width": 2}},
        hoverinfo="skip",
        legendgroup=line.name,
        showlegend=False,
        name=what,
    )


_MINIMUM = {"symbol": "diamond-cross-open", "size": 11}


def _minimum_trace(line: HeadLine, minimum: Minimum, color: str) -> Any:
    return go.Scatter(
        x=[minimum.position],
        y=[minimum.height],
        error_x={
            "type": "data",
            "array": [minimum.high - minimum.position],
            "arrayminus": [minimum.position - minimum.low],
            "color": color,
            "thickness": 1.4,
            "width": 5,
        },
        mode="markers",
        meta="fitted minimum",
        marker=_MINIMUM | {"color": color, "line": {"width": 1.6, "color": color}},
        hovertext=f"{theme.plain(line.name)}<br>fitted minimum at <b>{minimum.words}</b>",
        hoverinfo="text",
        legendgroup=line.name,
        showlegend=False,
        name=theme.plain(line.name),
    )


def _published_trace(data: HeadCurveData, line: PublishedLine) -> Any:
    color = theme.SERIES[line.line % len(theme.SERIES)]
    ours = data.lines[line.line].name
    name = f"paper: {theme.plain(ours)}"
    moved = f"<br>moved by {text.signed(line.moved)}" if line.moved else ""
    return go.Scatter(
        x=line.positions,
        y=line.values,
        mode="lines+markers",
        line={"color": color, "width": 1.4, "dash": "dash"},
        meta="published",
        marker={"size": 7, "color": color, "symbol": "x-thin-open", "line": {"width": 1.6}},
        hovertext=[
            f"{name}, {theme.plain(line.recipe)}<br>{text.number(value)}{moved}" for value in line.values
        ],
        hoverinfo="text",
        legendgroup=ours,
        showlegend=False,
        name=name,
    )


def _legend_entry(name: str, **look: Any) -> Any:
    return go.Scatter(
        x=[None],
        y=[None],
        mode="markers" if "marker" in look else "lines",
        name=name,
        hoverinfo="skip",
        **look,
    )


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

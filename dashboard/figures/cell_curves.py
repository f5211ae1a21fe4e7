"""Loss, or delta to the control, by step: the mean of each cell with its seeds behind."""

from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results.cell_curves import CellCurve
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.figures.inset import inset_layout
from headcount.dashboard.figures.smoothing import ema
from headcount.dashboard.figures.table import FigureTable

MOST_MARKERS = 60
"""Points of a line up to which each has a marker."""


class NamedCurve(NamedTuple):
    """A cell's curve under its name."""

    name: str
    curve: CellCurve
    is_control: bool


class CellCurvesData(NamedTuple):
    """Everything that the figure shows."""

    measure: Measure
    lines: list[NamedCurve]
    what: str = "Validation loss"
    smooth: float = 0.0
    """Weight of the moving average; 0 for none."""


NOTHING: dict[Measure, str] = {
    "loss": "A curve stands here from the first evaluation of a job on.",
    "delta": "A curve stands here once a job and its control at the same seed have an evaluation.",
}
"""What would fill the figure."""


def cell_curves_figure(data: CellCurvesData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    traces: list[Any] = []
    for index, line in enumerate(data.lines):
        traces += _line_traces(data, line, index)
    last = max((line.curve.steps[-1] for line in data.lines if line.curve.steps), default=0)
    if data.measure == "delta":
        zero = {"zeroline": True, "zerolinecolor": theme.MUTED, "zerolinewidth": 1.5}
        vertical = theme.axis("Delta to control, nats", tickformat=".3~f", **zero)
    else:
        vertical = theme.axis(f"{data.what}, nats a token", tickformat=".3~f")
    vertical["range"] = settled_range(data)
    inset = inset_layout(traces, last) if data.measure == "loss" and traces else {}
    return theme.figure(
        traces + inset.pop("traces", []),
        **inset,
        xaxis=theme.axis("Step", tickformat=",", range=[-0.01 * last, 1.02 * last] if last else None),
        yaxis=vertical,
        hovermode="closest",
        nothing="" if traces else NOTHING[data.measure],
    )


def settled_range(data: CellCurvesData) -> tuple[float, float] | None:
    """The vertical range of what lies behind the first tenth of the steps, in which losses only fall.

    Deltas keep their first tenth where it takes no more room than the rest.
    """
    last = max((line.curve.steps[-1] for line in data.lines if line.curve.steps), default=0)
    points = [
        (step, value)
        for line in data.lines
        for losses in line.curve.losses
        for step, value in zip(line.curve.steps, losses, strict=True)
        if value is not None
    ]
    settled = [value for step, value in points if step >= last / 10]
    if not settled:
        return None
    low, high = min(settled), max(settled)
    if data.measure == "delta":
        values = [value for _, value in points]
        if max(values) - min(values) <= 2 * (high - low):
            low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.01
    return low - room, high + room


def runs_out(data: CellCurvesData) -> str:
    """For a caption: that first steps lie outside of the range; empty where none does."""
    ends = settled_range(data)
    values = [v for line in data.lines for losses in line.curve.losses for v in losses if v is not None]
    is_cut = ends is not None and (min(values) < ends[0] or max(values) > ends[1])
    return "; the first steps run out of the figure" if is_cut else ""


def _line_traces(data: CellCurvesData, line: NamedCurve, index: int) -> list[Any]:
    measure = data.measure
    color = theme.MUTED if line.is_control else theme.SERIES[index % len(theme.SERIES)]
    write = text.signed if measure == "delta" else text.number
    name = theme.plain(line.name)
    steps, seeds = list(line.curve.steps), text.plural(len(line.curve.seeds), "seed")
    traces = [
        go.Scatter(
            x=steps,
            y=list(losses),
            mode="lines",
            line={"color": color, "width": 1},
            opacity=0.35,
            meta="one seed",
            hovertext=[
                f"{name}<br>seed {seed}, step {s:,}: {write(v)}" for s, v in zip(steps, losses, strict=True)
            ],
            hoverinfo="text",
            legendgroup=line.name,
            showlegend=False,
            name=name,
        )
        for seed, losses in zip(line.curve.seeds, line.curve.losses, strict=True)
        if len(line.curve.seeds) > 1
    ]
    means = ema(line.curve.mean, data.smooth)
    if data.smooth:
        traces.append(
            go.Scatter(
                x=steps,
                y=list(line.curve.mean),
                mode="lines",
                line={"color": color, "width": 1.2},
                opacity=0.45,
                meta="not smoothed",
                hoverinfo="skip",
                legendgroup=line.name,
                showlegend=False,
                name=name,
            )
        )
    few = len(steps) <= MOST_MARKERS
    return [
        *traces,
        go.Scatter(
            x=steps,
            y=means,
            mode="lines+markers" if few else "lines",
            line={"color": color, "width": 2.2, "dash": "dot" if line.is_control else "solid"},
            marker={"size": 6, "color": color, "symbol": theme.SYMBOLS[index % len(theme.SYMBOLS)]},
            hovertext=[
                f"{name}<br>step {step:,}: <b>{write(mean)}</b>, mean of {seeds}"
                for step, mean in zip(steps, means, strict=True)
            ],
            hoverinfo="text",
            legendgroup=line.name,
            name=name,
        ),
    ]


def cell_curves_table(data: CellCurvesData) -> FigureTable:
    """The means to read."""
    write = text.signed if data.measure == "delta" else text.number
    rows = [
        [line.name, f"{step:,}", write(mean), str(len(line.curve.seeds))]
        for line in data.lines
        for step, mean in zip(line.curve.steps, line.curve.mean, strict=True)
    ]
    what = "Delta" if data.measure == "delta" else "Loss"
    return FigureTable(["Cell", "Step", what, "n"], rows, f"{what} by step, mean over seeds.", numbers_from=1)


def cell_curves_summary(data: CellCurvesData) -> str:
    """The figure in words, for those who do not see it."""
    write = text.signed if data.measure == "delta" else text.number
    parts = []
    for line in data.lines:
        known = [(s, m) for s, m in zip(line.curve.steps, line.curve.mean, strict=True) if m is not None]
        if known:
            (first, begin), (last, end) = known[0], known[-1]
            parts.append(f"{line.name}: {write(begin)} at step {first:,}, {write(end)} at step {last:,}")
        else:
            parts.append(f"{line.name}: no step that every seed has come to")
    what = "Delta to control" if data.measure == "delta" else data.what
    return f"{what} by step. " + ("; ".join(parts) or "No evaluation yet") + "."

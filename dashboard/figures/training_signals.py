"""How a job trained beside its loss: gradient norm, learning rate and speed by step, one above the other."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results import ProgressPoint
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable

GAP = 0.07
"""Between two of the rows, as a part of the height."""


class Signal(NamedTuple):
    """One row; None where a number was not finite, which leaves a gap."""

    name: str
    values: list[float | None]
    logarithmic: bool
    form: str
    """Of the axis's numbers, as d3 has it."""


class TrainingSignals(NamedTuple):
    """Everything that the figure shows."""

    steps: list[int]
    signals: list[Signal]


def training_signals(progress: Sequence[ProgressPoint]) -> TrainingSignals:
    """The signals of a job from its stored points; one that has no number is left out."""
    found = [
        Signal("Gradient norm", [p.gradient_norm for p in progress], True, ".2~g"),
        Signal("Learning rate", [p.learning_rate for p in progress], False, ".2~r"),
        Signal("Tokens a second", [p.tokens_per_second for p in progress], False, ".3~s"),
    ]
    told = [signal for signal in found if any(value is not None for value in signal.values)]
    return TrainingSignals([p.step for p in progress], told)


def training_signals_figure(data: TrainingSignals) -> dict[str, Any]:
    """The figure, drawn for the light page: each signal has a vertical axis of its own."""
    rows = max(1, len(data.signals))
    height = (1 - GAP * (rows - 1)) / rows
    traces, axes = [], {}
    for i, signal in enumerate(data.signals):
        number = "" if i == 0 else str(i + 1)
        top = 1 - i * (height + GAP)
        axes[f"yaxis{number}"] = theme.axis(
            signal.name, tickformat=signal.form, domain=[max(0.0, top - height), top], **_scale(signal)
        )
        traces.append(
            go.Scatter(
                x=data.steps,
                y=signal.values,
                yaxis=f"y{number}",
                name=signal.name,
                mode="lines",
                line={"color": theme.SERIES[i], "width": 1.6},
                hovertemplate=f"step %{{x:,}}<br>{signal.name.lower()} %{{y:.4~g}}<extra></extra>",
            )
        )
    return theme.figure(
        traces,
        xaxis=theme.axis("Step", tickformat=",", anchor=f"y{rows if rows > 1 else ''}"),
        showlegend=False,
        hovermode="closest",
        nothing="" if traces else "A job is drawn here from its second or so on.",
        **axes,
    )


def _scale(signal: Signal) -> dict[str, Any]:
    """A range that shows a constant too, with few ticks: a row is low."""
    known = [value for value in signal.values if value is not None]
    if not signal.logarithmic:
        most = max(known) or 1.0
        return {"range": [0, 1.1 * most], "tickvals": [0, most / 2, most]}
    known = [value for value in known if value > 0] or [1.0]
    low, high = math.log10(min(known)), math.log10(max(known))
    powers = range(math.floor(low), math.ceil(high) + 1)
    inside = [10.0**n for n in powers if low <= n <= high]
    ticks = inside[:: -(-len(inside) // 3)] if len(inside) > 1 else sorted({min(known), max(known)})
    return {"type": "log", "range": [low - 0.15, high + 0.15], "tickvals": ticks}


def training_signals_table(data: TrainingSignals) -> FigureTable:
    """The numbers to read."""
    columns = zip(*(signal.values for signal in data.signals), strict=True)
    rows = [
        [f"{step:,}", *(text.NOTHING if value is None else f"{value:.4g}" for value in values)]
        for step, values in zip(data.steps, columns, strict=False)
    ]
    names = ["Step", *(signal.name for signal in data.signals)]
    return FigureTable(names, rows, "Each stored point of this job.", numbers_from=0)


def training_signals_summary(data: TrainingSignals) -> str:
    """The figure in words, for those who do not see it."""
    parts = []
    for signal in data.signals:
        known = [value for value in signal.values if value is not None]
        parts.append(f"{signal.name} from {min(known):.3g} to {max(known):.3g}, last {known[-1]:.3g}")
    return "; ".join(parts) + "." if parts else "No point yet."

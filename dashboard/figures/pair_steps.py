"""How far a treatment's training loss is from its control's at each update, on the very same batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.smoothing import ema
from headcount.dashboard.figures.table import FigureTable

MOST_POINTS = 400
"""Of one line; the mean of as many updates as that takes."""

NOTHING = (
    "A pair stands here once both of its jobs have ended: a job leaves the loss of every update among the "
    "artifacts then. One that was trained elsewhere has none."
)
"""What would fill the figure."""

Losses = NDArray[np.float32]


class StepLine(NamedTuple):
    """One line: a distance in nats by update."""

    name: str
    is_noise: bool
    steps: list[int]
    distances: list[float | None]


def pair_line(name: str, treatment: Losses, control: Losses) -> StepLine:
    """|Δ| of the updates that both have done."""
    common = min(len(treatment), len(control))
    return _line(name, False, np.abs(treatment[:common] - control[:common]))


def noise_line(name: str, control: Losses) -> StepLine:
    """How far the control goes from one batch to the next: what |Δ| would be without the same batches."""
    return _line(name, True, np.abs(np.diff(control)))


def _line(name: str, is_noise: bool, distances: Losses) -> StepLine:
    width = -(-len(distances) // MOST_POINTS) or 1
    parts = [distances[at : at + width] for at in range(0, len(distances), width)]
    means = [float(np.mean(part)) for part in parts]
    steps = [at * width + (len(part) + 1) // 2 for at, part in enumerate(parts)]
    return StepLine(name, is_noise, steps, [mean if np.isfinite(mean) else None for mean in means])


def pair_steps_figure(lines: Sequence[StepLine], smooth: float) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    traces = []
    for index, line in enumerate(lines):
        color = theme.MUTED if line.is_noise else theme.SERIES[index % len(theme.SERIES)]
        name, values = theme.plain(line.name), ema(line.distances, smooth)
        traces.append(
            go.Scatter(
                x=line.steps,
                y=values,
                mode="lines",
                line={"color": color, "width": 2, "dash": "dot" if line.is_noise else "solid"},
                hovertext=[
                    f"{name}<br>update {step:,}: <b>{text.number(value)}</b>"
                    for step, value in zip(line.steps, values, strict=True)
                ],
                hoverinfo="text",
                name=name,
            )
        )
    return theme.figure(
        traces,
        xaxis=theme.axis("Update", tickformat=",", rangemode="tozero"),
        yaxis=theme.axis(
            "|Δ| of training losses, nats a token",
            type="log" if traces else None,
            dtick="D2" if traces else None,
            tickformat=".2~g",
        ),
        hovermode="closest",
        nothing="" if traces else NOTHING,
    )


def pair_steps_table(lines: Sequence[StepLine]) -> FigureTable:
    """The first, middle and last part of every line to read."""
    rows = []
    for line in lines:
        thirds = np.array_split(np.array([d for d in line.distances if d is not None]), 3)
        rows.append(
            [line.name, *(text.number(float(part.mean())) if len(part) else text.NOTHING for part in thirds)]
        )
    columns = ["Line", "First third", "Middle third", "Last third"]
    return FigureTable(columns, rows, "Mean distance over each third of the updates, nats.", numbers_from=1)


def pair_steps_summary(lines: Sequence[StepLine]) -> str:
    """The figure in words, for those who do not see it."""
    parts = [f"{row[0]}: {row[3]}" for row in pair_steps_table(lines).rows]
    told = "; ".join(parts) or "No pair of ended jobs yet"
    return f"Distance of training losses to the control at the same batch, last third of the updates. {told}."

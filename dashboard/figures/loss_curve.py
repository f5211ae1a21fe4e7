"""The loss curve of a job: training behind, validation in front."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results import EvaluationPoint, JobView, ProgressPoint
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable


class LossCurveData(NamedTuple):
    """Both losses by step; None where one was not finite, which leaves a gap."""

    training_steps: list[int]
    training_losses: list[float | None]
    validation_steps: list[int]
    validation_losses: list[float | None]
    steps: int | None
    """Planned updates of the job: where the axis ends."""
    tail_mean: float | None
    tail_from: float | None
    """The tail mean is of the evaluations from here on."""
    diverged_step: int | None
    restarts: list[int]
    """Steps from which a later attempt went on."""
    control_steps: Sequence[int] = ()
    control_losses: Sequence[float | None] = ()
    """Validation of the control at the same seed."""


def loss_curve_data(
    job: JobView,
    progress: Sequence[ProgressPoint],
    evaluations: Sequence[EvaluationPoint],
    control: Sequence[EvaluationPoint] = (),
) -> LossCurveData:
    """The curve of a job from its stored points, and those of its control."""
    return LossCurveData(
        training_steps=[p.step for p in progress],
        training_losses=[p.loss for p in progress],
        validation_steps=[e.step for e in evaluations],
        validation_losses=[e.loss for e in evaluations],
        steps=job.steps,
        tail_mean=job.tail_mean,
        tail_from=job.steps * 3 / 4 if job.steps and job.tail_mean is not None else None,
        diverged_step=job.diverged_step,
        restarts=[a.start_step for a in job.attempts if a.start_step],
        control_steps=tuple(e.step for e in control),
        control_losses=tuple(e.loss for e in control),
    )


def loss_curve_figure(data: LossCurveData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    traces = [
        go.Scatter(
            x=data.training_steps,
            y=data.training_losses,
            name="training, last batch",
            mode="lines",
            line={"color": theme.SERIES[0], "width": 1.2},
            opacity=0.75,
            hovertemplate="step %{x:,}<br>training %{y:.4f}<extra></extra>",
        ),
        go.Scatter(
            x=data.validation_steps,
            y=data.validation_losses,
            name="validation",
            mode="lines+markers",
            line={"color": theme.SERIES[1], "width": 2.2},
            marker={"size": 6, "symbol": "square"},
            hovertemplate="step %{x:,}<br>validation <b>%{y:.4f}</b><extra></extra>",
        ),
    ]
    if data.control_steps:
        traces.append(
            go.Scatter(
                x=data.control_steps,
                y=data.control_losses,
                name="validation of the control",
                mode="lines",
                line={"color": theme.MUTED, "width": 1.6, "dash": "dot"},
                hovertemplate="step %{x:,}<br>control %{y:.4f}<extra></extra>",
            )
        )
    if data.tail_mean is not None:
        traces.append(
            go.Scatter(
                x=[data.tail_from, data.steps],
                y=[data.tail_mean, data.tail_mean],
                name="tail mean",
                mode="lines",
                line={"color": theme.INK, "width": 2, "dash": "dash"},
                hovertext=f"tail mean {text.number(data.tail_mean)}",
                hoverinfo="text",
            )
        )
    marks = [(step, "resumed", theme.MUTED) for step in data.restarts]
    if data.diverged_step is not None:
        marks.append((data.diverged_step, "diverged", theme.DIVERGED))
    last = max([data.steps or 0, *data.training_steps, *data.validation_steps])
    return theme.figure(
        traces,
        xaxis=theme.axis("Step", tickformat=",", range=[-0.01 * last, 1.02 * last] if last else None),
        yaxis=theme.axis("Loss, nats a token", tickformat=".3~f"),
        hovermode="closest",
        shapes=[
            {
                "type": "line",
                "x0": step,
                "x1": step,
                "y0": 0,
                "y1": 1,
                "yref": "paper",
                "line": {"color": color, "width": 1.2, "dash": "dot"},
            }
            for step, _, color in marks
        ],
        annotations=[
            {
                "x": step,
                "y": 1,
                "yref": "paper",
                "yanchor": "top",
                "xanchor": "left",
                "xshift": 4,
                "text": f"{word} at step {step:,}",
                "showarrow": False,
                "font": {"color": color, "size": 12},
            }
            for step, word, color in marks
        ],
    )


def loss_curve_table(data: LossCurveData) -> FigureTable:
    """The evaluations to read."""
    rows = [
        [f"{step:,}", text.number(loss)]
        for step, loss in zip(data.validation_steps, data.validation_losses, strict=True)
    ]
    return FigureTable(["Step", "Validation loss"], rows, "Every evaluation of this job.", numbers_from=0)


def loss_curve_summary(data: LossCurveData) -> str:
    """The figure in words, for those who do not see it."""
    known = [
        (step, loss)
        for step, loss in zip(data.validation_steps, data.validation_losses, strict=True)
        if loss is not None
    ]
    if not known:
        return "Loss by step. No evaluation yet."
    first, last = known[0], known[-1]
    words = (
        f"Loss by step. Validation goes from {text.number(first[1])} at step {first[0]:,} to "
        f"{text.number(last[1])} at step {last[0]:,}."
    )
    if data.tail_mean is not None:
        words += f" Tail mean {text.number(data.tail_mean)}."
    if data.diverged_step is not None:
        words += f" The job diverged at step {data.diverged_step:,}."
    return words

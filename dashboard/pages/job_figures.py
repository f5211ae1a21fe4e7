"""The figures of a job: its losses, its delta to the control by step, and how it trained."""

from sqlalchemy.orm import Session

from headcount.api.results import EvaluationPoint, JobView, evaluations, progress
from headcount.api.results.cell_curves import CellCurve, delta_curve
from headcount.dashboard import text
from headcount.dashboard.figures import cell_curves as steps
from headcount.dashboard.figures import loss_curve as losses
from headcount.dashboard.figures import training_signals as signals
from headcount.dashboard.panel import Figure
from headcount.dashboard.rendering import ROOT

MOST_POINTS = 1000
"""Training points that a figure draws; the API has them all."""

FOR_PAPER = ("loss", "delta")
"""Figures that leave as files of every form; of the others, the numbers do."""


def job_figures(session: Session, job: JobView, title: str) -> tuple[Figure, ...]:
    """The losses always; the others where there is something to draw."""
    trained = progress(session, job.id, limit=MOST_POINTS)
    evaluated = evaluations(session, job.id)
    control = evaluations(session, job.control_id) if job.control_id else ()
    data = losses.loss_curve_data(job, trained, evaluated, control)
    found = [
        Figure(
            id="loss",
            title="Loss by step",
            drawn=losses.loss_curve_figure(data),
            summary=losses.loss_curve_summary(data),
            caption=_caption(job, data),
            table=losses.loss_curve_table(data),
            csv=f"{ROOT.get()}/api/v1/jobs/{job.id}/evaluations.csv",
        )
    ]
    delta = delta_curve(_curve(job, evaluated), _curve(job, control)) if evaluated and control else None
    if delta and any(value is not None for value in delta.mean):
        found.append(_delta(job, steps.CellCurvesData("delta", [steps.NamedCurve(title, delta, False)])))
    told = signals.training_signals(trained)
    if told.signals:
        found.append(_signals(job, told))
    return tuple(found)


def _curve(job: JobView, points: tuple[EvaluationPoint, ...]) -> CellCurve:
    """The evaluations of one job as those of a cell with one seed."""
    values = tuple(point.loss for point in points)
    return CellCurve(0, (job.seed,), tuple(point.step for point in points), (values,), values)


def _caption(job: JobView, data: losses.LossCurveData) -> str:
    parts = [
        f"n = 1 (seed {job.seed})",
        f"{text.plural(len(data.validation_steps), 'evaluation')} and "
        f"{text.plural(len(data.training_steps), 'training point')} of the last batch, as stored (thinned)",
    ]
    if data.control_steps:
        parts.append("Dotted: validation of the control at the same seed")
    if data.tail_mean is not None:
        parts.append("Tail mean: the evaluations in the last quarter of the steps, both ends included")
    return ". ".join(parts) + "."


def _delta(job: JobView, data: steps.CellCurvesData) -> Figure:
    drawn = steps.cell_curves_figure(data)
    drawn["layout"]["yaxis"]["tickformat"] = ".4~f"  # one job varies less than cells differ
    return Figure(
        id="delta",
        title="Delta to the control by step",
        drawn=drawn,
        summary=steps.cell_curves_summary(data),
        caption=f"n = 1 (seed {job.seed}), paired with the control at this seed{steps.runs_out(data)}. "
        "Below 0 is better.",
        table=steps.cell_curves_table(data),
    )


def _signals(job: JobView, data: signals.TrainingSignals) -> Figure:
    return Figure(
        id="signals",
        title="How it trained",
        drawn=signals.training_signals_figure(data),
        summary=signals.training_signals_summary(data),
        caption=f"n = 1 (seed {job.seed}). {text.plural(len(data.steps), 'point')}, as stored (thinned); "
        "the norm is on a logarithmic scale.",
        table=signals.training_signals_table(data),
        csv=f"{ROOT.get()}/jobs/{job.id}/figures/signals.csv",
    )

"""What the page of a job shows: its loss curve, attempts, environment and difference from its control."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from headcount.api.results import JobView, cell_view, evaluations, job_view, progress
from headcount.dashboard import text
from headcount.dashboard.figures import loss_curve as curves
from headcount.dashboard.panel import Figure
from headcount.dashboard.rendering import ROOT


@dataclass(frozen=True)
class JobPage:
    """Everything on the page."""

    job: JobView
    title: str
    """Its settings in the first sweep that wants it, and its seed."""
    figure: Figure
    environment: dict[str, Any]
    """Of the last attempt that told one."""
    mixed: bool
    """Whether attempts ran in different environments."""
    csv: str
    """Where the API has the evaluations in full precision."""


def job_page(session: Session, job_id: str) -> JobPage:
    """The page of a job. Raises `NotFoundError`."""
    job = job_view(session, job_id)
    data = curves.loss_curve_data(job, progress(session, job_id), evaluations(session, job_id))
    told = [attempt.environment for attempt in job.attempts if attempt.environment]
    return JobPage(
        job=job,
        title=_title(session, job),
        figure=Figure(
            id="loss",
            title="Loss by step",
            drawn=curves.loss_curve_figure(data),
            summary=curves.loss_curve_summary(data),
            caption=_caption(job, data),
            table=curves.loss_curve_table(data),
        ),
        environment=told[-1] if told else {},
        mixed=any(environment != told[0] for environment in told),
        csv=f"{ROOT.get()}/api/v1/jobs/{job.id}/evaluations.csv",
    )


def _title(session: Session, job: JobView) -> str:
    if job.kind == "train" and job.wishes:
        wish = job.wishes[0]
        cell = cell_view(session, wish.sweep, wish.cell)
        named = text.cell_name(cell.settings, cell.is_control) if cell.settings or cell.is_control else ""
        return " · ".join(filter(None, [named, f"seed {job.seed}"]))
    return f"{job.kind} · seed {job.seed}"


def _caption(job: JobView, data: curves.LossCurveData) -> str:
    parts = [
        f"n = 1 (seed {job.seed})",
        f"{text.plural(len(data.validation_steps), 'evaluation')} and "
        f"{text.plural(len(data.training_steps), 'training point')} of the last batch, as stored (thinned)",
    ]
    if data.tail_mean is not None:
        parts.append("Tail mean: the evaluations in the last quarter of the steps, both ends included")
    return ". ".join(parts) + "."

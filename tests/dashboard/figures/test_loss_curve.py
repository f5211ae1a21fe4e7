from dataclasses import replace

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import JobView, evaluations, job_view, progress
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.loss_curve import (
    LossCurveData,
    loss_curve_data,
    loss_curve_figure,
    loss_curve_summary,
    loss_curve_table,
)
from headcount.orchestrator.store.models import Job


def job_in(session: Session, state: str) -> JobView:
    job_id = session.scalars(select(Job.id).where(Job.state == state).order_by(Job.id)).first()
    assert job_id
    return job_view(session, job_id)


def data_of(session: Session, job: JobView) -> LossCurveData:
    return loss_curve_data(job, progress(session, job.id), evaluations(session, job.id))


def test_the_curve_of_a_finished_job(session: Session) -> None:
    job = job_in(session, "finished")
    data = data_of(session, job)
    assert data.validation_steps == list(range(0, 401, 10))
    assert data.training_steps == list(range(10, 401, 10))
    # the synthetic training loss is 0.05 above the validation loss
    assert data.training_losses == pytest.approx([loss + 0.05 for loss in data.validation_losses[1:] if loss])
    assert data.tail_mean == job.tail_mean
    assert (data.steps, data.tail_from, data.diverged_step, data.restarts) == (400, 300.0, None, [])


def test_the_tail_mean_is_that_of_the_points_it_is_drawn_over(session: Session) -> None:
    data = data_of(session, job_in(session, "finished"))
    tail = [
        loss
        for step, loss in zip(data.validation_steps, data.validation_losses, strict=True)
        if loss is not None and data.tail_from is not None and step >= data.tail_from
    ]
    assert len(tail) == 11
    assert data.tail_mean == pytest.approx(sum(tail) / 11)


def test_a_diverged_job_says_where(session: Session) -> None:
    data = data_of(session, job_in(session, "diverged"))
    assert (data.diverged_step, data.tail_mean, data.tail_from) == (120, None, None)
    assert data.validation_losses[-1] is None
    drawn = loss_curve_figure(data)
    assert [a["text"] for a in drawn["layout"]["annotations"]] == ["diverged at step 120"]
    assert drawn["layout"]["shapes"][0]["line"]["color"] == theme.DIVERGED
    assert [t["name"] for t in drawn["data"]] == ["training, last batch", "validation"]
    assert loss_curve_summary(data).endswith("The job diverged at step 120.")
    assert loss_curve_table(data).rows[-1] == ["120", "—"]


def test_later_attempts_are_marked_where_they_went_on(session: Session) -> None:
    job = job_in(session, "finished")
    first = job.attempts[0]
    job = replace(job, attempts=(first, replace(first, number=2, start_step=150)))
    data = data_of(session, job)
    assert data.restarts == [150]
    assert [a["text"] for a in loss_curve_figure(data)["layout"]["annotations"]] == ["resumed at step 150"]


def test_the_figure_draws_the_data(session: Session) -> None:
    data = data_of(session, job_in(session, "finished"))
    training, validation, tail = loss_curve_figure(data)["data"]
    assert list(training["y"]) == data.training_losses
    assert list(validation["y"]) == data.validation_losses
    assert (tail["x"], tail["y"]) == ([300.0, 400], [data.tail_mean, data.tail_mean])


def test_a_job_without_a_point_draws(session: Session) -> None:
    data = data_of(session, job_in(session, "queued"))
    assert data == LossCurveData([], [], [], [], 400, None, None, None, [])
    assert len(loss_curve_figure(data)["data"]) == 2
    assert loss_curve_summary(data) == "Loss by step. No evaluation yet."
    assert loss_curve_table(data).rows == []

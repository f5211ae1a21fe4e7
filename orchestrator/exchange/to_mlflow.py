"""A sweep as an experiment of MLflow, a run a job."""

import importlib
import math
from typing import Any

from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.curves import JobCurves, job_curves
from headcount.trainer.errors import UserError

MOST_METRICS = 1000
"""In one request, as MLflow's REST API has it."""

JOB_TAG = "headcount.job"

_STATUS = {"finished": "FINISHED", "cancelled": "KILLED"}


def write_mlflow(session: Session, sweep: str, uri: str | None) -> tuple[int, int]:
    """Log every settled job that the experiment does not have yet; how many were logged, and passed over.

    `uri` is a tracking URI; MLflow's own settings decide without one. The experiment is called as the sweep;
    jobs are known again by a tag, so that a second export adds only what is new. Losses that were not finite
    are left out. Raises `UserError` for an unknown sweep, without MLflow, and where it does not answer.
    """
    try:
        mlflow: Any = importlib.import_module("mlflow")
    except ImportError as error:
        raise UserError("writing to MLflow needs it; pip install 'headcount[mlflow]'") from error
    jobs = job_curves(session, sweep)
    first = next(jobs)  # an unknown sweep is told before MLflow is asked
    try:
        client = mlflow.MlflowClient(tracking_uri=uri)
        found = client.get_experiment_by_name(sweep)
        experiment = found.experiment_id if found else client.create_experiment(sweep)
        logged = passed = 0
        for job in (first, *jobs):
            known = f"tags.`{JOB_TAG}` = '{job.id}'"
            if job.state not in ("finished", "diverged") or client.search_runs(
                [experiment], known, max_results=1
            ):
                passed += 1
                continue
            _log(mlflow.entities, client, experiment, job)
            logged += 1
    except mlflow.exceptions.MlflowException as error:
        raise UserError(f"MLflow: {error}") from error
    return logged, passed


def _log(entities: Any, client: Any, experiment: str, job: JobCurves) -> None:
    begun = int(1000 * job.created.timestamp())
    ended = int(1000 * job.ended.timestamp()) if job.ended else begun
    tags = {"mlflow.runName": job.name, JOB_TAG: job.id, "headcount.state": job.state}
    run = client.create_run(experiment, start_time=begun, tags=tags).info.run_id
    params = [entities.Param(axis, str(value)) for axis, value in job.settings.items() if value is not None]
    client.log_batch(run, params=params)
    metrics = [
        entities.Metric(name, value, ended, step)
        for name, points in job.curves.items()
        for step, value in points
        if value is not None and math.isfinite(value)
    ]
    if job.tail_mean is not None:
        metrics.append(entities.Metric("tail_mean", job.tail_mean, ended, 0))
    for start in range(0, len(metrics), MOST_METRICS):
        client.log_batch(run, metrics=metrics[start : start + MOST_METRICS])
    client.set_terminated(run, _STATUS.get(job.state, "FAILED"), ended)

"""The errors of a loss, kept apart: between seeds, between steps, and over validation windows."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import NotFoundError, find_job, find_sweep
from headcount.api.results.records import Record, provenance, settings
from headcount.api.results.tables import AblationTable
from headcount.orchestrator.store.models import Evaluation, Job, SweepJob
from headcount.sweeps.statistics import MeanEstimate, TailError, sample_sd, tail_error, window_error

FEWEST = 6
"""Evaluations of a tail from which on its error between steps can be told."""


@dataclass(frozen=True)
class JobErrors:
    """What one job tells of the errors of its tail mean; neither is the error between seeds."""

    job_id: str
    evaluations: int
    """Of the tail."""
    steps: TailError | None
    """Between steps; None under 6 evaluations."""
    windows: MeanEstimate | None
    """Over validation windows; None where the losses by window were not kept."""
    control_id: str | None
    delta_windows: MeanEstimate | None
    """Of the delta to the control over the same windows, where most of that error cancels."""


def job_errors(session: Session, job_id: str) -> JobErrors:
    """The errors of a finished job's tail mean. Raises `NotFoundError` where it has none."""
    if find_job(session, job_id).state != "finished":
        raise NotFoundError(f"job {job_id} has not finished, so that it has no tail mean")
    wished = select(SweepJob.control_job_id).where(
        SweepJob.job_id == job_id, SweepJob.control_job_id.is_not(None)
    )
    control_id = session.scalar(wished.order_by(SweepJob.sweep_id).limit(1))
    losses, windows = _tail(session, job_id)
    delta = None
    if control_id is not None:
        _, theirs = _tail(session, control_id)
        shared = sorted(windows.keys() & theirs.keys())
        if shared and len({len(windows[s]) for s in shared} | {len(theirs[s]) for s in shared}) == 1:
            delta = window_error(
                [[a - b for a, b in zip(windows[s], theirs[s], strict=True)] for s in shared]
            )
    return JobErrors(
        job_id=job_id,
        evaluations=len(losses),
        steps=tail_error(losses) if len(losses) >= FEWEST else None,
        windows=window_error(list(windows.values())) if windows else None,
        control_id=control_id,
        delta_windows=delta,
    )


def _tail(session: Session, job_id: str) -> tuple[list[float], dict[int, list[float]]]:
    """The losses of a job's tail in order, and those by window of the steps that have all of them."""
    rows = session.execute(
        select(Evaluation.step, Evaluation.loss, Evaluation.window_losses, Job.tail)
        .join(Job, Job.id == Evaluation.job_id)
        .where(Evaluation.job_id == job_id, Evaluation.loss.is_not(None), _in_tail())
        .order_by(Evaluation.step)
    ).all()
    rows = rows[-rows[0].tail :] if rows and rows[0].tail is not None else rows
    windows = {
        row.step: row.window_losses for row in rows if row.window_losses and None not in row.window_losses
    }
    return [row.loss for row in rows], windows


def _in_tail() -> Any:
    """In the last quarter of the steps; every evaluation of a job that reports over another tail."""
    return or_(Evaluation.step >= (Job.step * 3 + 3) // 4, Job.tail.is_not(None))


def error_records(session: Session, table: AblationTable) -> list[Record]:
    """A row a cell with a finished job: the spread between its seeds, and the errors inside its jobs."""
    tails = _tails(session, table.sweep)
    records = []
    for row in table.rows:
        jobs = tails.get(row.cell, {})
        inside = [tail_error(losses) for losses, _ in jobs.values() if len(losses) >= FEWEST]
        control = tails.get(row.control, {}) if row.control is not None else {}
        if not jobs:
            continue
        apart = [
            [a - b for a, b in zip(windows, control[seed][1], strict=True)]
            for seed, (_, windows) in jobs.items()
            if seed in control and len(windows) == len(control[seed][1]) > 1
        ]
        records.append(
            settings(table, row)
            | {"seed_sd": row.sd, "seed_se": row.se, "n": row.n}
            | {"step_se": _rms([error.se for error in inside])}
            | {"step_autocorrelation": _mean([error.autocorrelation for error in inside])}
            | {"step_effective_n": _mean([error.effective_n for error in inside])}
            | {"window_se": _window_se([windows for _, windows in jobs.values() if len(windows) > 1])}
            | {"delta_window_se": _window_se(apart)}
            | provenance(row)
        )
    return records


def _tails(session: Session, sweep: str) -> dict[int, dict[int, tuple[list[float], list[float]]]]:
    """By cell and seed: the losses of the tail in order, and those by window at the last step."""
    of_sweep = (SweepJob.sweep_id == find_sweep(session, sweep).id, Job.state == "finished")
    query = select(SweepJob.cell_id, Job.seed, Job.tail).join(Job, Job.id == SweepJob.job_id).where(*of_sweep)
    evaluated = query.join(Evaluation, Evaluation.job_id == Job.id)
    losses = evaluated.add_columns(Evaluation.loss).where(_in_tail())
    found: defaultdict[int, dict[int, tuple[list[float], list[float]]]] = defaultdict(dict)
    losses = losses.order_by(SweepJob.job_id, Evaluation.step)
    for cell, seed, tail, loss in session.connection().execute(losses).all():
        told, _ = found[cell].setdefault(seed, ([], []))
        if loss is not None:
            told.append(loss)
            if tail is not None:
                del told[:-tail]
    windows = evaluated.add_columns(Evaluation.window_losses).where(Evaluation.step == Job.step)
    for cell, seed, _, at_end in session.connection().execute(windows).all():
        if at_end and None not in at_end:
            found[cell][seed][1].extend(at_end)
    return dict(found)


def _window_se(losses: Sequence[Sequence[float]]) -> float | None:
    """Of jobs that have two windows or more each."""
    return _rms([sample_sd(windows) / len(windows) ** 0.5 for windows in losses])


def _rms(values: Sequence[float]) -> float | None:
    return sqrt(fsum(value * value for value in values) / len(values)) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None

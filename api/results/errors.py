"""The errors of a loss, kept apart: between seeds, between steps, and over validation windows."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic_core import from_json
from sqlalchemy import ColumnElement, Text, case, cast, select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import NotFoundError, find_job, find_sweep
from headcount.api.results.records import Record, provenance, settings
from headcount.api.results.tables import AblationTable
from headcount.orchestrator.store.models import Evaluation, Job, SweepJob
from headcount.sweeps.statistics import MeanEstimate, TailError, tail_error, window_error
from headcount.sweeps.statistics.tail import tail_errors, window_standard_errors

Array = NDArray[np.float64]
T = TypeVar("T")

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


def _in_tail() -> ColumnElement[bool]:
    """In the last quarter of the steps; every evaluation of a job that reports over another tail.

    One comparison for both, so that a range of the evaluations' index is read.
    """
    return Evaluation.step >= case((Job.tail.is_(None), (Job.step * 3 + 3) // 4), else_=0)


Place = tuple[int, int]
"""Cell and seed of a job."""


def error_records(session: Session, table: AblationTable) -> list[Record]:
    """A row a cell with a finished job: the spread between its seeds, and the errors inside its jobs."""
    losses, windows = _tails(session, table.sweep)
    controls = {row.cell: row.control for row in table.rows if row.control is not None}
    seeds: defaultdict[int, list[int]] = defaultdict(list)
    for cell, seed in losses:
        seeds[cell].append(seed)
    inside = _of_each(tail_errors, {place: x for place, x in losses.items() if len(x) >= FEWEST})
    own = _of_each(window_standard_errors, windows)
    apart = _of_each(window_standard_errors, _differences(windows, controls))
    records = []
    for row in table.rows:
        places = [(row.cell, seed) for seed in seeds[row.cell]]
        if not places:
            continue
        errors = [inside[place] for place in places if place in inside]
        records.append(
            settings(table, row)
            | {"seed_sd": row.sd, "seed_se": row.se, "n": row.n}
            | {"step_se": _rms([error.se for error in errors])}
            | {"step_autocorrelation": _mean([error.autocorrelation for error in errors])}
            | {"step_effective_n": _mean([error.effective_n for error in errors])}
            | {"window_se": _rms([own[place] for place in places if place in own])}
            | {"delta_window_se": _rms([apart[place] for place in places if place in apart])}
            | provenance(row)
        )
    return records


def _tails(session: Session, sweep: str) -> tuple[dict[Place, list[float]], dict[Place, Array]]:
    """The losses of each finished job's tail in order; those by window at its last step, if two or more."""
    of_sweep = (SweepJob.sweep_id == find_sweep(session, sweep).id, Job.state == "finished")
    at_end = case((Evaluation.step == Job.step, cast(Evaluation.window_losses, Text)), else_=None)
    query = (
        select(SweepJob.cell_id, Job.seed, Job.tail, Evaluation.loss, at_end)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Evaluation, Evaluation.job_id == Job.id)
        .where(*of_sweep, _in_tail())
        .order_by(SweepJob.job_id, Evaluation.step)
    )
    losses: defaultdict[tuple[int, int, int | None], list[float]] = defaultdict(list)
    windows = {}
    # rows of columns alone come faster than through the session
    for cell, seed, tail, loss, text in session.connection().execute(query).all():
        told = losses[cell, seed, tail]
        if loss is not None:
            told.append(loss)
        if text is not None:
            of_windows = from_json(text)
            if of_windows and len(of_windows) > 1 and None not in of_windows:
                windows[cell, seed] = np.array(of_windows, dtype=np.float64)
    return {(c, s): x if tail is None else x[-tail:] for (c, s, tail), x in losses.items()}, windows


def _differences(windows: Mapping[Place, Array], controls: Mapping[int, int]) -> dict[Place, Array]:
    """To the control's job at the same seed, over the same windows."""
    found = {}
    for (cell, seed), own in windows.items():
        other = windows.get((controls.get(cell, -1), seed))
        if other is not None and len(other) == len(own):
            found[cell, seed] = own - other
    return found


def _of_each(errors: Callable[[Array], Iterable[T]], rows: Mapping[Place, Any]) -> dict[Place, T]:
    """The errors of each row, those of one length at once."""
    by_length: defaultdict[int, list[Place]] = defaultdict(list)
    for place, row in rows.items():
        by_length[len(row)].append(place)
    found: dict[Place, T] = {}
    for places in by_length.values():
        found.update(zip(places, errors(np.array([rows[place] for place in places])), strict=True))
    return found


def _rms(values: Sequence[float]) -> float | None:
    return sqrt(fsum(value * value for value in values) / len(values)) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None

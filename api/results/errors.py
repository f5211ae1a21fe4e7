"""The errors of a loss, kept apart: between seeds, between steps, and over validation windows."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, case, select
from sqlalchemy.orm import Session

from headcount.api.results.job_tails import JobTail
from headcount.api.results.lookup import NotFoundError, find_job
from headcount.api.results.records import Record, provenance, settings
from headcount.api.results.tables import AblationTable
from headcount.orchestrator.store.models import Evaluation, Job, SweepJob
from headcount.sweeps.statistics import MeanEstimate, TailError, tail_error, window_error
from headcount.sweeps.statistics.tail import tail_columns, window_standard_errors

Array = NDArray[np.float64]

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


def error_records(table: AblationTable, tails: Sequence[JobTail]) -> list[Record]:
    """A row a cell with a finished job: the spread between its seeds, and the errors inside its jobs."""
    windows = {(tail.cell, tail.seed): tail.windows for tail in tails if tail.windows is not None}
    controls = {row.cell: row.control for row in table.rows if row.control is not None}
    seeds: defaultdict[int, list[int]] = defaultdict(list)
    for tail in tails:
        seeds[tail.cell].append(tail.seed)
    inside: dict[Place, tuple[float, float, float]] = {}
    for places, losses in _alike({(t.cell, t.seed): t.losses for t in tails if len(t.losses) >= FEWEST}):
        inside |= zip(places, _step_errors(losses), strict=True)
    own, apart = _window_errors(windows, controls)
    records = []
    for row in table.rows:
        places = [(row.cell, seed) for seed in seeds[row.cell]]
        if not places:
            continue
        errors = [inside[place] for place in places if place in inside]
        records.append(
            settings(table, row)
            | {"seed_sd": row.sd, "seed_se": row.se, "n": row.n}
            | {"step_se": _rms([se for se, _, _ in errors])}
            | {"step_autocorrelation": _mean([autocorrelation for _, autocorrelation, _ in errors])}
            | {"step_effective_n": _mean([effective_n for _, _, effective_n in errors])}
            | {"window_se": _rms([own[place] for place in places if place in own])}
            | {"delta_window_se": _rms([apart[place] for place in places if place in apart])}
            | provenance(row)
        )
    return records


def _step_errors(losses: Array) -> Iterable[tuple[float, float, float]]:
    """Of each job the standard error, the autocorrelation and the effective n."""
    found = tail_columns(losses)
    effective_n = losses.shape[1] / found.inflation
    return zip(found.se.tolist(), found.autocorrelation.tolist(), effective_n.tolist(), strict=True)


def _window_errors(
    windows: Mapping[Place, Sequence[float | None]], controls: Mapping[int, int]
) -> tuple[dict[Place, float], dict[Place, float]]:
    """Of each job whose windows are all finite; and of its difference to the control's job at the same seed,
    over the same windows."""
    own: dict[Place, float] = {}
    apart: dict[Place, float] = {}
    for places, losses in _alike(windows):
        whole = np.flatnonzero(~np.isnan(losses).any(axis=1)).tolist()
        at = {places[i]: i for i in whole}
        pairs = {place: at.get((controls.get(place[0], -1), place[1])) for place in at}
        paired = {place: other for place, other in pairs.items() if other is not None}
        differences = losses[[at[place] for place in paired]] - losses[[*paired.values()]]
        own |= zip(at, window_standard_errors(losses[whole]).tolist(), strict=True)
        if paired:
            apart |= zip(paired, window_standard_errors(differences).tolist(), strict=True)
    return own, apart


def _alike(rows: Mapping[Place, Any]) -> Iterator[tuple[list[Place], Array]]:
    """The rows of one length at once; NaN for None."""
    by_length: defaultdict[int, list[Place]] = defaultdict(list)
    for place, row in rows.items():
        by_length[len(row)].append(place)
    for places in by_length.values():
        yield places, np.array([rows[place] for place in places], float)


def _rms(values: Sequence[float]) -> float | None:
    return sqrt(fsum(value * value for value in values) / len(values)) if values else None


def _mean(values: Sequence[float]) -> float | None:
    return fsum(values) / len(values) if values else None

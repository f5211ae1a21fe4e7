"""What instruments found of a sweep's jobs.

An instrument is a job of its own, whose parent is the training job that it looks at. What it found are
measurements, whose names say of what: `probe.excess`, `downstream.lambada.acc`, and with `.stderr` behind it
the standard error of a score over the items of its task.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep, sweep_id_of
from headcount.api.results.told import told_by_instruments
from headcount.orchestrator.store.models import Measurement, SweepJob

PROBE, DOWNSTREAM, STDERR = "probe.", "downstream.", ".stderr"

BySeed = Mapping[int, float]
"""Seed to value."""

BySeedOfCells = defaultdict[int, dict[int, float]]


class Figures(NamedTuple):
    """What instruments told, by name."""

    told: dict[str, dict[int, dict[int, float]]]
    """Of each, by cell and seed."""
    lost: dict[str, dict[int, tuple[int, ...]]]
    """By cell, the seeds whose job has the figure, but no finite number for it."""


def figures(session: Session, sweep: str, start: str) -> Figures:
    """Every measurement whose name starts so, of finished instruments. Raises `NotFoundError`.

    Of several that looked at one job, the newest that has a finite number counts.
    """
    behind = start[:-1] + chr(ord(start[-1]) + 1)  # both engines compare names byte by byte
    told: defaultdict[str, BySeedOfCells] = defaultdict(lambda: defaultdict(dict))
    unknown: set[tuple[str, int, int]] = set()
    for cell, seed, names, values in told_by_instruments(session, sweep_id_of(session, sweep), start, behind):
        for name, value in zip(names, values.tolist(), strict=True):
            if isfinite(value):
                told[name][cell][seed] = value
            else:
                unknown.add((name, cell, seed))
    lost: defaultdict[str, defaultdict[int, tuple[int, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for name, cell, seed in sorted(unknown):
        if name not in told or seed not in told[name].get(cell, {}):
            lost[name][cell] += (seed,)
    return Figures(
        {name: dict(cells) for name, cells in told.items()},
        {name: dict(cells) for name, cells in lost.items()},
    )


def figure(session: Session, sweep: str, name: str) -> dict[int, list[float]]:
    """What the sweep's own jobs told of one name, by cell. Raises `NotFoundError`."""
    query = (
        select(SweepJob.cell_id, Measurement.value)
        .join(Measurement, Measurement.job_id == SweepJob.job_id)
        .where(SweepJob.sweep_id == find_sweep(session, sweep).id, Measurement.name == name)
        .order_by(SweepJob.job_id)
    )
    found: defaultdict[int, list[float]] = defaultdict(list)
    for cell, value in session.connection().execute(query).all():
        if value is not None and isfinite(value):
            found[cell].append(value)
    return dict(found)

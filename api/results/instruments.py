"""What was measured of a sweep's jobs beside the loss: by instruments, and by the training jobs themselves.

An instrument is a job of its own, whose parent is the training job that it looks at. What it found are
measurements, whose names say of what: `probe.excess`, `downstream.lambada.acc`, and with `.stderr` behind it
the standard error of a score over the items of its task. A training job that routes tells, at its last step,
`routing_entropy` (mean over its sites), `routing_entropy.SITE` and `routing_top_source.SITE`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import Session, aliased

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Job, Measurement, SweepJob

PROBE, DOWNSTREAM, STDERR = "probe.", "downstream.", ".stderr"
ENTROPY, TOP_SOURCE = "routing_entropy", "routing_top_source"

T = TypeVar("T")

BySeed = Mapping[int, float]
"""Seed to value."""

BySeedOfCells = defaultdict[int, dict[int, float]]


def figures(session: Session, sweep: str, start: str) -> dict[str, dict[int, dict[int, float]]]:
    """Every measurement whose name starts so, by name, cell and seed. Raises `NotFoundError`.

    They are of the sweep's own jobs and of their finished children, of which the newest that has the figure
    counts.
    """
    sweep_id = find_sweep(session, sweep).id
    named = Measurement.name.startswith(start, autoescape=True)
    child = aliased(Job)
    children = (
        select(SweepJob.cell_id, child.seed, Measurement.name, Measurement.value)
        .join(child, child.parent_id == SweepJob.job_id)
        .join(Measurement, Measurement.job_id == child.id)
        .where(SweepJob.sweep_id == sweep_id, child.state == "finished")
        .order_by(child.ended, child.id)
    )
    found: defaultdict[str, BySeedOfCells] = defaultdict(lambda: defaultdict(dict))
    for query in (_of_own(sweep_id), children):
        for cell, seed, name, value in session.connection().execute(query.where(named)).all():
            if value is not None:
                found[name][cell][seed] = value
    return {name: dict(cells) for name, cells in found.items()}


def _of_own(sweep_id: int) -> Select[int, int, str, float | None]:
    return (
        select(SweepJob.cell_id, Job.seed, Measurement.name, Measurement.value)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Measurement, Measurement.job_id == Job.id)
        .where(SweepJob.sweep_id == sweep_id)
    )


def figure(session: Session, sweep: str, name: str) -> dict[int, dict[int, float]]:
    """What the sweep's own jobs told of one name, by cell and seed. Raises `NotFoundError`."""
    found: BySeedOfCells = defaultdict(dict)
    query = _of_own(find_sweep(session, sweep).id).where(Measurement.name == name)
    for cell, seed, _, value in session.connection().execute(query).all():
        if value is not None:
            found[cell][seed] = value
    return dict(found)


@dataclass(frozen=True)
class Sites:
    """What the sites of one cell told at the last step, from the first to the last."""

    entropies: tuple[float, ...] = ()
    """The mean over jobs."""
    top_sources: tuple[int, ...] = ()
    """The source with the most weight, in most jobs; the older of two."""


def routing_sites(session: Session, sweep: str) -> dict[int, Sites]:
    """Cell to what its sites told."""
    of_sweep = SweepJob.sweep_id == find_sweep(session, sweep).id
    query = (
        select(SweepJob.cell_id, Measurement.name)
        .join(Measurement, Measurement.job_id == SweepJob.job_id)
        .where(of_sweep, Measurement.value.is_not(None))
        .group_by(SweepJob.cell_id, Measurement.name)
    )
    means: _BySite[float] = defaultdict(dict)
    mean = query.add_columns(func.avg(Measurement.value)).where(_of_sites(ENTROPY))
    for cell, name, value in session.connection().execute(mean).all():
        means[cell][_site(name)] = value
    tops: _BySite[tuple[int, float]] = defaultdict(dict)
    counted = query.add_columns(Measurement.value, func.count()).where(_of_sites(TOP_SOURCE))
    for cell, name, value, jobs in session.connection().execute(counted.group_by(Measurement.value)).all():
        site = _site(name)
        tops[cell][site] = min(tops[cell].get(site, (0, 0.0)), (-jobs, value))
    return {
        cell: Sites(
            tuple(value for _, value in sorted(means[cell].items())),
            tuple(int(top) for _, (_, top) in sorted(tops[cell].items())),
        )
        for cell in {*means, *tops}
    }


_BySite = defaultdict[int, dict[int, T]]
"""Cell and site to what is told of it."""


def _of_sites(figure: str) -> ColumnElement[bool]:
    return Measurement.name.startswith(f"{figure}.", autoescape=True)


def _site(name: str) -> int:
    return int(name.rpartition(".")[2])

"""What was measured of a sweep's jobs beside the loss: by instruments, and by the training jobs themselves.

An instrument is a job of its own, whose parent is the training job that it looks at. What it found are
measurements, whose names say of what: `probe.excess`, `downstream.lambada.acc`, and with `.stderr` behind it
the standard error of a score over the items of its task. A training job that routes tells, at its last step,
`routing_entropy` (mean over its sites), `routing_entropy.SITE` and `routing_top_source.SITE`.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Select, and_, func, select
from sqlalchemy.orm import Session, aliased

from headcount.api.results.cells import TRAINED
from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Job, Measurement, SweepJob

PROBE, DOWNSTREAM, STDERR = "probe.", "downstream.", ".stderr"
ENTROPY, TOP_SOURCE = "routing_entropy", "routing_top_source"

T = TypeVar("T")

BySeed = Mapping[int, float]
"""Seed to value."""

BySeedOfCells = defaultdict[int, dict[int, float]]


class Figures(NamedTuple):
    """What jobs told, by name."""

    told: dict[str, dict[int, dict[int, float]]]
    """Of each, by cell and seed."""
    lost: dict[str, dict[int, tuple[int, ...]]]
    """By cell, the seeds whose job has the figure, but no finite number for it."""


def figures(session: Session, sweep: str, start: str) -> Figures:
    """Every measurement whose name starts so. Raises `NotFoundError`.

    They are of the sweep's own jobs and of their finished children, of which the newest that has a finite
    number counts.
    """
    sweep_id = find_sweep(session, sweep).id
    child = aliased(Job)
    # which have finished is asked below: SQLite would begin with every job of the store in that state
    children = (
        select(SweepJob.cell_id, child.seed, Measurement.name, Measurement.value, child.state)
        .join(child, child.parent_id == SweepJob.job_id)
        .join(Measurement, Measurement.job_id == child.id)
        .where(SweepJob.sweep_id == sweep_id)
        .order_by(SweepJob.job_id, child.ended, child.id)
    )
    connection = session.connection()  # rows of columns alone come faster than through the session
    rows: list[Any] = list(connection.execute(_of_own(sweep_id).where(_begins_with(start))).all())
    for *row, state in connection.execute(children.where(_begins_with(start))).all():
        if state == "finished":
            rows.append(row)
    found: defaultdict[str, BySeedOfCells] = defaultdict(lambda: defaultdict(dict))
    unknown: set[tuple[str, int, int]] = set()
    for cell, seed, name, value in rows:
        if value is not None and isfinite(value):
            found[name][cell][seed] = value
        else:
            unknown.add((name, cell, seed))
    told = {name: dict(cells) for name, cells in found.items()}
    lost: defaultdict[str, defaultdict[int, tuple[int, ...]]] = defaultdict(lambda: defaultdict(tuple))
    for name, cell, seed in sorted(unknown):
        if seed not in told.get(name, {}).get(cell, {}):
            lost[name][cell] += (seed,)
    return Figures(told, {name: dict(cells) for name, cells in lost.items()})


def figure(session: Session, sweep: str, name: str) -> dict[int, list[float]]:
    """What the sweep's own jobs told of one name, by cell. Raises `NotFoundError`."""
    query = (
        select(SweepJob.cell_id, Measurement.value)
        .join(Measurement, Measurement.job_id == SweepJob.job_id)
        .where(SweepJob.sweep_id == find_sweep(session, sweep).id, Measurement.name == name)
        .order_by(SweepJob.job_id)
    )
    found: defaultdict[int, list[float]] = defaultdict(list)
    for cell, value in _told(session, query):
        if isfinite(value):
            found[cell].append(value)
    return dict(found)


def _of_own(sweep_id: int) -> Select[int, int, str, float | None]:
    return (
        select(SweepJob.cell_id, Job.seed, Measurement.name, Measurement.value)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Measurement, Measurement.job_id == Job.id)
        .where(SweepJob.sweep_id == sweep_id, Job.kind.in_(TRAINED))  # with the kind, an index has it all
    )


def _told(session: Session, query: Any) -> Sequence[Any]:
    """The rows with a value; of columns alone, which come faster than through the session."""
    return session.connection().execute(query.where(Measurement.value.is_not(None))).all()


def _begins_with(start: str) -> ColumnElement[bool]:
    """Of a measurement's name, as a range of its index: both engines compare names byte by byte."""
    return and_(Measurement.name >= start, Measurement.name < start[:-1] + chr(ord(start[-1]) + 1))


@dataclass(frozen=True)
class Sites:
    """What the sites of one cell told at the last step, from the first to the last."""

    entropies: tuple[float, ...] = ()
    """The mean over jobs."""
    top_sources: tuple[int, ...] = ()
    """The source with the most weight, in most jobs; the older of two."""


def routing_sites(session: Session, sweep: str) -> dict[int, Sites]:
    """Cell to what its sites told."""
    query = (
        select(SweepJob.cell_id, Measurement.name)
        .join(Measurement, Measurement.job_id == SweepJob.job_id)
        .where(SweepJob.sweep_id == find_sweep(session, sweep).id)
        .group_by(SweepJob.cell_id, Measurement.name)
    )
    means: _BySite[float] = defaultdict(dict)
    mean = query.add_columns(func.avg(Measurement.value)).where(_begins_with(f"{ENTROPY}."))
    for cell, name, value in _told(session, mean):
        means[cell][_site(name)] = value
    tops: _BySite[tuple[int, float]] = defaultdict(dict)
    none = (0, 0.0)
    counted = query.add_columns(Measurement.value, func.count()).where(_begins_with(f"{TOP_SOURCE}."))
    for cell, name, value, jobs in _told(session, counted.group_by(Measurement.value)):
        of_cell, site = tops[cell], _site(name)
        most, top = of_cell.get(site, none)
        if jobs > most or (jobs == most and value < top):
            of_cell[site] = (jobs, value)
    return {
        cell: Sites(
            tuple([value for _, value in sorted(means[cell].items())]),
            tuple([int(top) for _, (_, top) in sorted(tops[cell].items())]),
        )
        for cell in {*means, *tops}
    }


_BySite = defaultdict[int, dict[int, T]]
"""Cell and site to what is told of it."""


@lru_cache(maxsize=1024)
def _site(name: str) -> int:
    return int(name.rpartition(".")[2])

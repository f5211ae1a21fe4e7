"""What was measured of a sweep's jobs beside the loss: by instruments, and by the training jobs themselves.

An instrument is a job of its own, whose parent is the training job that it looks at. What it found are
measurements, whose names say of what: `probe.excess`, `downstream.lambada.acc`, and with `.stderr` behind it
the standard error of a score over the items of its task. A training job that routes tells, at its last step,
`routing_entropy` (mean over its sites), `routing_entropy.SITE` and `routing_top_source.SITE`.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session, aliased

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Job, Measurement, SweepJob

PROBE, DOWNSTREAM, STDERR = "probe.", "downstream.", ".stderr"
ENTROPY, TOP_SOURCE = "routing_entropy", "routing_top_source"

BySeed = Mapping[int, float]
"""Seed to value."""


def figures(session: Session, sweep: str, start: str) -> dict[str, dict[int, dict[int, float]]]:
    """Every measurement whose name starts so, by name, cell and seed. Raises `NotFoundError`.

    They are of the sweep's own jobs and of their finished children, of which the newest that has the figure
    counts.
    """
    return _figures(session, sweep, Measurement.name.startswith(start, autoescape=True))


def figure(session: Session, sweep: str, name: str) -> dict[int, dict[int, float]]:
    """As `figures`, of one name: by cell and seed."""
    return _figures(session, sweep, Measurement.name == name).get(name, {})


def _figures(
    session: Session, sweep: str, named: ColumnElement[bool]
) -> dict[str, dict[int, dict[int, float]]]:
    of_sweep = SweepJob.sweep_id == find_sweep(session, sweep).id
    child = aliased(Job)
    own = (
        select(SweepJob.cell_id, Job.seed, Measurement.name, Measurement.value)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Measurement, Measurement.job_id == Job.id)
        .where(of_sweep, named)
    )
    children = (
        select(SweepJob.cell_id, child.seed, Measurement.name, Measurement.value)
        .join(child, child.parent_id == SweepJob.job_id)
        .join(Measurement, Measurement.job_id == child.id)
        .where(of_sweep, named, child.state == "finished")
        .order_by(child.ended, child.id)
    )
    found: defaultdict[str, defaultdict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for query in (own, children):
        for cell, seed, name, value in session.execute(query):
            if value is not None:
                found[name][cell][seed] = value
    return {name: dict(cells) for name, cells in found.items()}


class Sites:
    """What the sites of one cell told at the last step: value to number of jobs, by name and site."""

    def __init__(self) -> None:
        self._told: defaultdict[str, defaultdict[int, Counter[float]]] = defaultdict(
            lambda: defaultdict(Counter)
        )

    def add(self, name: str, value: float, jobs: int) -> None:
        figure, _, site = name.rpartition(".")
        self._told[figure][int(site)][value] += jobs

    def means(self, figure: str) -> tuple[float, ...]:
        """The mean over jobs at each site, from the first to the last."""
        return tuple(sum(v * n for v, n in at.items()) / at.total() for at in self._sites(figure))

    def modes(self, figure: str) -> tuple[int, ...]:
        """The value that most jobs have at each site."""
        return tuple(int(min(at, key=lambda value: (-at[value], value))) for at in self._sites(figure))

    def _sites(self, figure: str) -> list[Counter[float]]:
        return [self._told[figure][site] for site in sorted(self._told[figure])]


def routing_sites(session: Session, sweep: str) -> dict[int, Sites]:
    """Cell to what its sites told."""
    of_sweep = SweepJob.sweep_id == find_sweep(session, sweep).id
    names = [Measurement.name.startswith(f"{figure}.", autoescape=True) for figure in (ENTROPY, TOP_SOURCE)]
    query = (
        select(SweepJob.cell_id, Measurement.name, Measurement.value, func.count())
        .join(Measurement, Measurement.job_id == SweepJob.job_id)
        .where(of_sweep, Measurement.value.is_not(None), names[0] | names[1])
        .group_by(SweepJob.cell_id, Measurement.name, Measurement.value)
    )
    found: defaultdict[int, Sites] = defaultdict(Sites)
    for cell, name, value, jobs in session.execute(query):
        found[cell].add(name, value or 0.0, jobs)
    return dict(found)

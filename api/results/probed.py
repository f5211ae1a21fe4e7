"""What probes found of a cell, site by site, from the files that they left."""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from headcount.api.results.instruments import wanted_by
from headcount.api.results.lookup import sweep_id_of
from headcount.orchestrator.store.models import Artifact, Job, SweepJob

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ProbedSite:
    """One read of two sources or more; means over the cell's probed jobs."""

    site: int
    disagreement: float
    null: float
    oldest_weight: float
    """Of source 0, the embedding in `mhar`."""
    weights: Array
    """[sources, heads], mean over tokens."""

    @property
    def deviation(self) -> Array:
        """How much more a head weighs a source than the heads do on average: [sources, heads]."""
        deviation: Array = self.weights - self.weights.mean(axis=1, keepdims=True)
        return deviation


@dataclass(frozen=True)
class Probed:
    """Of one cell, at the end of its jobs."""

    seeds: tuple[int, ...]
    sites: tuple[ProbedSite, ...]


def probed_cells(
    session: Session, sweep: str, cells: Sequence[int], read: Callable[[str], bytes | None]
) -> dict[int, Probed]:
    """By cell, the probe of each job that counts as in `figures`; cells that none looked at are left out.

    Of probes that cut the width into different slices, those of most jobs are averaged. `read` opens an
    artifact by its key, and gives None where it is gone. Raises `NotFoundError`.
    """
    sweep_id = sweep_id_of(session, sweep)
    child = aliased(Job)
    query = (
        select(child.id, SweepJob.cell_id, child.seed, Artifact.key)
        .join(child, child.parent_id == SweepJob.job_id)
        .join(Artifact, Artifact.job_id == child.id)
        .where(SweepJob.sweep_id == sweep_id, SweepJob.cell_id.in_(cells))
        .where(child.kind == "probe", child.state == "finished", Artifact.kind == "probe")
        .order_by(SweepJob.cell_id, child.ended, child.id)
    )
    keys: dict[int, dict[int, str]] = {}
    wanted = wanted_by(session, sweep_id)
    for _, cell, seed, key in sorted(session.execute(query), key=lambda row: row.id in wanted):
        keys.setdefault(cell, {})[seed] = key
    found = {}
    for cell, by_seed in sorted(keys.items()):
        told = {seed: json.loads(content)["sites"] for seed, key in by_seed.items() if (content := read(key))}
        if told:
            shapes = {
                seed: tuple(np.shape(site["weights"]) for site in sites) for seed, sites in told.items()
            }
            [(most, _)] = Counter(shapes.values()).most_common(1)
            alike = {seed: told[seed] for seed in sorted(told) if shapes[seed] == most}
            found[cell] = Probed(tuple(alike), _means(list(alike.values())))
    return found


def _means(jobs: list[list[dict[str, Any]]]) -> tuple[ProbedSite, ...]:
    sites = []
    for at in zip(*jobs, strict=True):
        mean = {
            name: float(np.mean([site[name] for site in at]))
            for name in ("disagreement", "null", "oldest_weight")
        }
        weights = np.mean([np.array(site["weights"]) for site in at], axis=0)
        sites.append(ProbedSite(site=at[0]["site"], weights=weights, **mean))
    return tuple(sites)

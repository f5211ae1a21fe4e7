"""What probes found of a cell, site by site, from the files that they left."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from headcount.api.results.lookup import find_sweep
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
    """By cell, the newest finished probe of each of its jobs; cells that none looked at are left out.

    `read` opens an artifact by its key, and gives None where it is gone. Raises `NotFoundError`.
    """
    child = aliased(Job)
    query = (
        select(SweepJob.cell_id, child.seed, Artifact.key)
        .join(child, child.parent_id == SweepJob.job_id)
        .join(Artifact, Artifact.job_id == child.id)
        .where(SweepJob.sweep_id == find_sweep(session, sweep).id, SweepJob.cell_id.in_(cells))
        .where(child.kind == "probe", child.state == "finished", Artifact.kind == "probe")
        .order_by(SweepJob.cell_id, child.ended, child.id)
    )
    keys: dict[int, dict[int, str]] = {}
    for cell, seed, key in session.execute(query):
        keys.setdefault(cell, {})[seed] = key
    found = {}
    for cell, by_seed in keys.items():
        told = {seed: json.loads(content)["sites"] for seed, key in by_seed.items() if (content := read(key))}
        if told:
            found[cell] = Probed(tuple(sorted(told)), _means(list(told.values())))
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

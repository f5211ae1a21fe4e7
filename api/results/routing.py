"""How the sites of a cell mix their sources, as its jobs told at their last step.

A training job that routes tells `routing_entropy` (mean over its sites), and of each site from 0
`routing_entropy.SITE` and `routing_top_source.SITE`. There may be tens of thousands of them: they are grouped
as arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from headcount.api.results.lookup import sweep_id_of
from headcount.api.results.told import Numbers, told_by_jobs

ENTROPY, TOP_SOURCE = "routing_entropy", "routing_top_source"

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Routing:
    """What the finished jobs of one cell told."""

    entropy: dict[int, float]
    """By seed: nats, the mean over sites."""
    entropies: tuple[float | None, ...]
    """By site from the first: the mean over jobs; None where none has a finite number."""
    top_sources: tuple[int | None, ...]
    """By site: the source with the most weight, in most jobs; the older of two."""
    lost: tuple[int, ...]
    """The seeds whose job told a number that is not finite."""


def routing_of_cells(session: Session, sweep: str) -> dict[int, Routing]:
    """By cell; without cells of which no finished job has told. Raises `NotFoundError`."""
    jobs = told_by_jobs(session, sweep_id_of(session, sweep), ENTROPY, f"{TOP_SOURCE}/")  # "/" is behind "."
    if not jobs:
        return {}
    jobs.sort(key=lambda job: (job.cell, job.seed))
    places = {cell: place for place, cell in enumerate(dict.fromkeys(job.cell for job in jobs))}
    named = [_named(job.names) for job in jobs]
    lengths = [len(job.values) for job in jobs]
    told = _Numbers(
        np.repeat([places[job.cell] for job in jobs], lengths),
        np.repeat([job.seed for job in jobs], lengths),
        np.concatenate([sites for _, sites in named]),
        np.concatenate([job.values for job in jobs]),
    )
    kinds = np.concatenate([kinds for kinds, _ in named])
    entropy: list[dict[int, float]] = [{} for _ in places]
    whole = told.where((kinds == _OF_JOB) & np.isfinite(told.values))
    for place, seed, value in zip(
        whole.cells.tolist(), whole.seeds.tolist(), whole.values.tolist(), strict=True
    ):
        entropy[place][seed] = value
    lost: list[set[int]] = [set() for _ in places]
    torn = told.where((kinds != _OTHER) & ~np.isfinite(told.values))
    for place, seed in zip(torn.cells.tolist(), torn.seeds.tolist(), strict=True):
        lost[place].add(seed)
    means = _by_cell(told.where(kinds == _OF_SITE), _mean, len(places))
    tops = _by_cell(told.where(kinds == _TOP_OF_SITE), _mode, len(places))
    return {
        cell: Routing(
            entropy[at],
            means[at],
            tuple(None if top is None else int(top) for top in tops[at]),
            tuple(sorted(lost[at])),
        )
        for cell, at in places.items()
    }


class _Numbers(NamedTuple):
    """Numbers of many jobs, one after another."""

    cells: Integers
    """Their places."""
    seeds: Integers
    sites: Integers
    values: Numbers

    def where(self, chosen: NDArray[np.bool_]) -> "_Numbers":
        return _Numbers(self.cells[chosen], self.seeds[chosen], self.sites[chosen], self.values[chosen])


_OTHER, _OF_JOB, _OF_SITE, _TOP_OF_SITE = range(4)
"""Kinds of what a job tells."""


@lru_cache(maxsize=256)
def _named(names: tuple[str, ...]) -> tuple[Integers, Integers]:
    """The kind of each, and the site that it is of. Jobs of one shape tell the same."""
    kinds, sites = [], []
    for name in names:
        figure, _, site = name.partition(".")
        kind = {ENTROPY: _OF_SITE if site else _OF_JOB, TOP_SOURCE: _TOP_OF_SITE}.get(figure, _OTHER)
        kinds.append(kind)
        sites.append(int(site) if kind in (_OF_SITE, _TOP_OF_SITE) else 0)
    return np.array(kinds), np.array(sites)


def _by_cell(
    told: _Numbers, of: Callable[[Integers, Numbers, int], Numbers], cells: int
) -> list[tuple[float | None, ...]]:
    """What `of` makes of the finite numbers of each cell and site; None where there are none."""
    sites = int(told.sites.max(initial=-1)) + 1
    known = told.where(np.isfinite(told.values))
    found = of(known.cells * sites + known.sites, known.values, cells * sites).reshape(cells, sites)
    own = np.zeros(cells, int)
    np.maximum.at(own, told.cells, told.sites + 1)
    return [
        tuple(None if value != value else value for value in row[:count])
        for row, count in zip(found.tolist(), own.tolist(), strict=True)
    ]


def _mean(keys: Integers, values: Numbers, count: int) -> Numbers:
    """Of the values of each of `count` keys; NaN where there are none."""
    totals, jobs = np.bincount(keys, values, count), np.bincount(keys, minlength=count)
    found = np.full(count, np.nan)
    np.divide(totals, jobs, out=found, where=jobs > 0)
    return found


def _mode(keys: Integers, values: Numbers, count: int) -> Numbers:
    """The value that each of `count` keys has most often, the lowest of several; NaN where there are none."""
    order = np.lexsort([values, keys])
    keys, values = keys[order], values[order]
    first = np.flatnonzero((np.diff(keys, prepend=-1) != 0) | (np.diff(values, prepend=0.0) != 0))
    often = np.diff(first, append=len(keys))
    keys, values = keys[first], values[first]
    order = np.lexsort([-values, often, keys])
    last = order[np.diff(keys[order], append=-1) != 0]
    found = np.full(count, np.nan)
    found[keys[last]] = values[last]
    return found

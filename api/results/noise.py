"""How loud is the noise, and what could this sweep have seen? The floor under every difference."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import (
    PooledError,
    outperforming_size,
    sd_bias,
    sd_limits,
    seeds_needed,
    smallest_difference,
)

POWER = 0.8
RESOLUTION = 0.005
"""Nats: the difference that seeds are counted for where the analysis names no margin."""


@dataclass(frozen=True)
class NoiseFloor:
    """The spread between seeds, in nats. What was not measured is None."""

    control_sd: float | None
    """Between the seeds of one control, pooled over the controls."""
    control_df: int
    control_low: float | None
    control_high: float | None
    """95 % limits of that standard deviation: wide with few seeds."""
    control_unbiased: float | None
    """Divided by c₄, which a small sample's standard deviation falls short by."""
    residual_sd: float | None
    """What cell and seed leave (`pooling`): the noise of a paired comparison is √2 times this."""
    signal_to_noise: float | None
    """Spread of the treatments' means over `residual_sd`."""
    repeated_sd: float | None
    """The same seed twice in the same environment: 0 where training is exact to the bit."""
    repeated_jobs: int
    micro_batch_sd: float | None
    """The same seed twice, with another micro-batch the second time."""
    micro_batch_jobs: int


@dataclass(frozen=True)
class Resolution:
    """What the sweep can tell apart, at 80 % power and with the family's correction (Bonferroni)."""

    comparisons: int
    delta_sd: float | None
    """Root mean square of the cells' standard deviations of deltas."""
    seeds: int
    """Pairs of a cell, the median."""
    smallest_difference: float | None
    """The true delta found with 80 % probability at that spread and number of seeds."""
    resolution: float
    """The difference that `seeds_needed` is for: the analysis's `flat_margin`, else 0.005."""
    seeds_needed: int | None
    outperforming_seeds: int | None
    """Seeds of each side that show, with 95 % probability, a treatment that is lower in ¾ of all pairs with
    its control's jobs (Noether's size, as Bouthillier et al. 2021 recommend): no spread enters. None without
    a comparison."""


def noise_floor(table: AblationTable, pooled: PooledError | None) -> NoiseFloor:
    """The noise of a sweep from its controls and from what its cells leave."""
    squares, df = 0.0, 0
    for row in table.controls:
        if row.sd is not None and not row.seeds_diverged:
            squares += row.sd**2 * (row.n - 1)
            df += row.n - 1
    sd = sqrt(squares / df) if df else None
    low, high = sd_limits(sd, df) if sd else (None, None)
    means = [row.mean for row in table.treatments if row.mean is not None]
    residual = pooled.sd if pooled else None
    repeats = {repeat.kind: repeat for repeat in table.repeats}
    same, micro_batch = repeats.get("repeat.same"), repeats.get("repeat.micro_batch")
    return NoiseFloor(
        control_sd=sd,
        control_df=df,
        control_low=low,
        control_high=high,
        control_unbiased=sd / sd_bias(df + 1) if sd is not None else None,
        residual_sd=residual,
        signal_to_noise=float(np.std(means, ddof=1)) / residual if residual and len(means) > 1 else None,
        repeated_sd=same.sd if same else None,
        repeated_jobs=same.jobs if same else 0,
        micro_batch_sd=micro_batch.sd if micro_batch else None,
        micro_batch_jobs=micro_batch.jobs if micro_batch else 0,
    )


def resolution_of(
    table: AblationTable, rows: Sequence[TableRow], comparisons: int, alpha: float
) -> Resolution:
    """What the deltas of these rows can resolve."""
    sds = [row.delta.sd for row in rows if row.delta and row.delta.sd]
    pairs = [row.delta.n for row in rows if row.delta and row.delta.n]
    sd = float(np.sqrt(np.mean(np.square(sds)))) if sds else None
    seeds = int(np.median(pairs)) if pairs else 0
    wanted = float(table.analysis.get("flat_margin") or RESOLUTION)
    return Resolution(
        comparisons=comparisons,
        delta_sd=sd,
        seeds=seeds,
        smallest_difference=found_difference(sd / sqrt(seeds), seeds - 1, comparisons, alpha)
        if sd and seeds > 1
        else None,
        resolution=wanted,
        seeds_needed=seeds_needed(wanted, sd, comparisons=comparisons, alpha=alpha, target=POWER)
        if sd and comparisons
        else None,
        outperforming_seeds=ceil(outperforming_size(comparisons=comparisons, alpha=alpha))
        if comparisons
        else None,
    )


def found_difference(se: float, df: float, comparisons: int, alpha: float) -> float:
    """The true delta with this standard error that the family finds with 80 % probability."""
    return se * _in_errors(df, comparisons, alpha)


@lru_cache(maxsize=256)
def _in_errors(df: float, comparisons: int, alpha: float) -> float:
    return smallest_difference(1.0, df, comparisons=comparisons, alpha=alpha, target=POWER)

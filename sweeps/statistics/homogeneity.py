"""The check that pooling rests on: have all cells one variance?"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .layout import Array, block_layout, check_table, magnitude
from .student import ROUNDING

Verdict = Literal["homogeneous", "heterogeneous", "undecided"]

RATIO = 4.0  # the spread, in those of the other cells, that a check worth its name notices
POWER = 0.8  # how often it must
_DRAWS = 1000
_TOGETHER = 2**17  # losses of the draws that are worked on at a time: they stay in the processor's cache


@dataclass(frozen=True)
class HomogeneityCheck:
    """Bartlett's check of one variance for all cells.

    `power` is the probability that the check, in this layout, notices one cell with 4 times the spread of the
    others. "homogeneous" is said only if that is at least 0.8: a check that could not have failed vouches for
    nothing, and is "undecided". Pool on "homogeneous" alone.
    """

    verdict: Verdict
    statistic: float | None
    p: float | None
    power: float | None
    alpha: float
    reason: str | None = None


def check_homogeneity(losses: Array, *, alpha: float = 0.2) -> HomogeneityCheck:
    """Do the cells of a table of losses, cells × seeds, NaN where missing, share one variance?

    Bartlett's statistic on each cell's residuals from y = cell + seed + error. Bartlett, since at 3 seeds
    Brown and Forsythe's test never rejects, and Levene's rejects equal variances twice too often. The
    residuals, since deltas share their control's noise and would hide a noisy cell behind it. Residuals of
    one seed sum to 0, so the statistic is not quite χ²: p comes from 1000 seeded normal draws of the same
    layout. `alpha` is lenient because a false alarm costs width, and a miss costs coverage.
    """
    table = check_table(losses, cells=2)
    present = ~np.isnan(table)
    present[present.sum(1) < 2] = False  # one loss says nothing about a spread
    if present.any(1).sum() < 3:
        reason = "fewer than 3 cells have 2 seeds: the residuals of 2 cells always spread alike"
        return HomogeneityCheck("undecided", None, None, None, alpha, reason)
    layout = block_layout(present)
    residuals = layout.residuals(table)
    if np.max(np.abs(residuals)) <= ROUNDING * magnitude(table):
        reason = "the losses do not vary beyond cell and seed"
        return HomogeneityCheck("undecided", None, None, None, alpha, reason)
    statistic = float(_bartlett((residuals**2).sum(-1), present))
    null, shifted = _reference(present.shape, present.tobytes())
    p = float((1 + np.sum(null >= statistic)) / (1 + _DRAWS))
    power = float(np.mean(shifted > np.quantile(null, 1 - alpha)))
    if p <= alpha:
        return HomogeneityCheck("heterogeneous", statistic, p, power, alpha)
    if power < POWER:
        reason = f"would notice a cell with {RATIO:.0f} times the spread only {power:.0%} of the time"
        return HomogeneityCheck("undecided", statistic, p, power, alpha, reason)
    return HomogeneityCheck("homogeneous", statistic, p, power, alpha)


def _bartlett(squares: Array, present: NDArray[np.bool_]) -> Array:
    """Σν·log(ΣS/Σν) − Σν·log(S/ν), with S a cell's sum of squares and ν its seeds − 1; any leading axes."""
    measured = present.any(1)
    nu = present.sum(1)[measured] - 1.0
    squares = np.maximum(squares[..., measured], np.finfo(np.float64).tiny)
    pooled = squares.sum(-1) / nu.sum()
    return np.asarray(nu.sum() * np.log(pooled) - (nu * np.log(squares / nu)).sum(-1))


@lru_cache(maxsize=64)
def _reference(shape: tuple[int, int], mask: bytes) -> tuple[Array, Array]:
    """The statistic under one variance, and with one cell, drawn at random, at RATIO times the spread."""
    present = np.frombuffer(mask, dtype=np.bool_).reshape(shape)
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((_DRAWS, *shape))
    noisy = rng.choice(np.flatnonzero(present.any(1)), _DRAWS)
    null, shifted = np.empty((2, _DRAWS))
    size = max(1, _TOGETHER // present.size)
    for first in range(0, _DRAWS, size):
        some = slice(first, first + size)
        alike, apart = _squares(draws[some], noisy[some], present)
        null[some], shifted[some] = _bartlett(alike, present), _bartlett(apart, present)
    return null, shifted


def _squares(draws: Array, noisy: NDArray[np.int64], present: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Each cell's sum of squared residuals, draws × cells, of draws × cells × seeds: as they are, and with
    the losses of each draw's noisy cell RATIO times as large.

    The residuals are those of `BlockLayout.residuals`, y − cell's mean − (seed − its mean in the cell), and
    never made: their squares take only sums over a cell's seeds and over a seed's cells.
    """
    incidence = present.astype(np.float64)
    count = incidence.sum(1)
    share = incidence / np.maximum(count, 1)[:, None]
    inverse = np.linalg.pinv(np.diag(incidence.sum(0)) - incidence.T @ share, rcond=1e-10, hermitian=True)
    y = draws if present.all() else draws * incidence
    every = np.arange(len(y))
    # products with ones, since numpy sums along a short axis ten times as slowly
    total = y @ np.ones(y.shape[2])
    spread = y**2 @ np.ones(y.shape[2]) - total * (total / np.maximum(count, 1))
    of_seeds = np.ones(y.shape[1]) @ y - total @ share

    def squares(of_seeds: Array, growth: Array) -> Array:
        seeds = of_seeds @ inverse
        means = seeds @ share.T
        cross = ((y @ seeds[:, :, None])[:, :, 0] - total * means) * growth
        own = spread * growth**2
        found = own - 2 * cross + seeds**2 @ incidence.T - count * means**2
        return np.asarray(np.maximum(found, ROUNDING * own))

    growth = np.ones_like(total)
    alike = squares(of_seeds, growth)
    growth[every, noisy] = RATIO
    around = y[every, noisy] - (total[every, noisy, None] * share[noisy])
    return alike, squares(of_seeds + (RATIO - 1) * around, growth)

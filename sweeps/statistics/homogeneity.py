"""The check that pooling rests on: have all cells one variance?"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .layout import Array, block_layout, check_table, magnitude
from .student import ROUNDING

Draws = NDArray[np.float32]
Verdict = Literal["homogeneous", "heterogeneous", "undecided"]

RATIO = 4.0  # the spread, in those of the other cells, that a check worth its name notices
POWER = 0.8  # how often it must
_DRAWS = 1000
_TOGETHER = 2**17  # losses of the draws that are worked on at a time: they stay in the processor's cache
_LEAST = np.float32(1e-12)  # a sum of squares that is 0 but for rounding, as in a cell that shares no seed


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
    nu = present.sum(1)[present.any(1)] - 1.0
    statistic = float(_bartlett((residuals**2).sum(-1)[present.any(1)], nu))
    null, shifted = _reference(present.shape, present.tobytes())
    p = float((1 + np.sum(null >= statistic)) / (1 + _DRAWS))
    power = float(np.mean(shifted > np.quantile(null, 1 - alpha)))
    if p <= alpha:
        return HomogeneityCheck("heterogeneous", statistic, p, power, alpha)
    if power < POWER:
        reason = f"would notice a cell with {RATIO:.0f} times the spread only {power:.0%} of the time"
        return HomogeneityCheck("undecided", statistic, p, power, alpha, reason)
    return HomogeneityCheck("homogeneous", statistic, p, power, alpha)


def _bartlett(squares: Array | Draws, nu: Array) -> Array:
    """Σν·log(ΣS/Σν) − Σν·log(S/ν), with S a cell's sum of squares and ν its seeds − 1; any leading axes."""
    pooled = squares.sum(-1, dtype=np.float64) / nu.sum()
    logs = np.log(np.maximum(squares, np.finfo(squares.dtype).tiny))
    own = np.einsum("...c,c->...", logs, nu)
    return np.asarray(nu.sum() * np.log(pooled) - own + nu @ np.log(nu))


@lru_cache(maxsize=64)
def _reference(shape: tuple[int, int], mask: bytes) -> tuple[Array, Array]:
    """The statistic under one variance, and with one cell, drawn at random, at RATIO times the spread."""
    present = np.frombuffer(mask, dtype=np.bool_).reshape(shape)
    present = present[present.any(1)][:, present.any(0)]
    some = _balanced if present.all() else _unbalanced
    rng = np.random.default_rng(0)
    size = min(_DRAWS, max(1, _TOGETHER // present.size))
    # made once: fresh memory costs more than what is done with it
    room = np.empty((2, size * present.size + 1), dtype=np.float32)
    null, shifted = np.empty((2, _DRAWS))
    for first in range(0, _DRAWS, size):
        drawn = slice(first, min(first + size, _DRAWS))
        null[drawn], shifted[drawn] = some(rng, drawn.stop - first, present, room)
    return null, shifted


def _balanced(
    rng: np.random.Generator, draws: int, present: NDArray[np.bool_], room: Draws
) -> tuple[Array, Array]:
    """Some draws of `_reference`, where every cell has every seed.

    A cell's losses around their mean are then seeds − 1 independent normals in any orthonormal basis of
    contrasts, and the residuals are these around their mean over cells. No cell differs from another, so
    that the first is as good as one at random.
    """
    cells, seeds = present.shape
    z = _normals(rng, (draws, seeds - 1, cells), room)
    more = np.float32(RATIO - 1) * z[:, :, 0]
    z -= z.mean(-1, keepdims=True)
    null = _of_residuals(z, present)
    z[:, :, 0] += more
    z -= more[:, :, None] / np.float32(cells)
    return null, _of_residuals(z, present)


def _unbalanced(
    rng: np.random.Generator, draws: int, present: NDArray[np.bool_], room: Draws
) -> tuple[Array, Array]:
    """Some draws of `_reference` for any layout.

    The residuals are those of `BlockLayout.residuals`, with the cells eliminated in place of the seeds, of
    which there are fewer.
    """
    layout = block_layout(present)
    known, share, between = (x.astype(np.float32) for x in (present.T, layout.share.T, layout.between))
    every, noisy = np.arange(draws), rng.integers(len(present), size=draws)
    y = _normals(rng, (draws, *known.shape), room)
    spare = room[1, : y.size].reshape(y.shape)

    def without_seeds(of_seeds: Draws) -> None:
        """Take from y what seeds explain of losses around their cells' means, by these losses' sums."""
        effects = of_seeds @ between
        np.subtract(effects[:, :, None], (effects @ share)[:, None], out=spare)
        np.multiply(spare, known, out=spare)
        np.subtract(y, spare, out=y)

    y *= known
    y -= (y.sum(1) / known.sum(0))[:, None]
    y *= known
    more = np.float32(RATIO - 1) * y[every, :, noisy]
    without_seeds(y.sum(-1))
    null = _of_residuals(y, present)
    y[every, :, noisy] += more
    without_seeds(more)
    return null, _of_residuals(y, present)


def _normals(rng: np.random.Generator, shape: tuple[int, ...], room: Draws) -> Draws:
    """Standard normals in the first half of `room`, by Box and Muller (1958), of single precision: in a third
    of the time that numpy's own take."""
    size = prod(shape)
    half = -(-size // 2)
    draws, cosine = room[0, : 2 * half], room[1, :half]
    rng.random(out=draws, dtype=np.float32)
    radius, angle = draws[:half], draws[half:]
    np.subtract(1, radius, out=radius)  # above 0, for the logarithm
    np.log(radius, out=radius)
    radius *= -2
    np.sqrt(radius, out=radius)
    angle *= np.float32(2 * np.pi)
    np.cos(angle, out=cosine)
    np.sin(angle, out=angle)
    angle *= radius
    radius *= cosine
    return draws[:size].reshape(shape)


def _of_residuals(residuals: Draws, present: NDArray[np.bool_]) -> Array:
    squares = np.einsum("dsc,dsc->dc", residuals, residuals)
    return _bartlett(np.maximum(squares, _LEAST, out=squares), present.sum(1) - 1.0)

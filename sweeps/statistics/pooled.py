"""One error pooled over cells: y = cell + seed + error, with one variance for all cells.

Only for cells that pass `homogeneity.check_homogeneity`. Where the cells' variances differ, a pooled interval
is too narrow for one and too wide for another.
"""

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from .layout import Array, BlockLayout, block_layout, check_table, magnitude
from .student import ROUNDING, Estimate, t_estimate, unknown


@dataclass(frozen=True, eq=False)
class PooledError:
    """The residual standard deviation `sd` of a block design, with `df` degrees of freedom.

    `sd` is None where no degree of freedom is left. With every seed in every cell (`balanced`) this is the
    randomised complete block design, df = (cells − 1)(seeds − 1), and a difference of two cells has the
    standard error sd·√(2/seeds); otherwise it is ordinary least squares with df = N − cells − seeds + 1.
    `effects` are the cells' means adjusted for their seeds, around 0; `spreads` the cells' own standard
    deviations by the same residuals, 0 of a cell with one seed.
    """

    sd: float | None
    df: int
    balanced: bool
    effects: Array
    spreads: Array
    layout: BlockLayout

    @cached_property
    def own_variances(self) -> list[float]:
        """Of the cells' means, each by its own spread."""
        own: list[float] = (self.spreads**2 / np.maximum(self.layout.seeds, 1)).tolist()
        return own


def pooled_error(losses: Array) -> PooledError:
    """Pool the error of a table of losses, cells × seeds, NaN where missing; ValueError under 2 cells."""
    table = check_table(losses, cells=2)
    layout = block_layout(~np.isnan(table))
    sd, spreads = None, np.zeros(len(table))
    if layout.df > 0:
        squares = np.sum(layout.residuals(table) ** 2, axis=1)
        sd = float(np.sqrt(squares.sum() / layout.df))
        # residuals have layout.df degrees of freedom in all, of which a cell has a share by its seeds − 1
        beyond = np.maximum(layout.seeds - 1, 0)
        spreads = np.sqrt(squares / np.maximum(beyond, 1) * beyond.sum() / layout.df)
        if sd <= ROUNDING * magnitude(table):
            sd = 0.0
    effects = np.where(layout.present.any(1), layout.effects(table), np.nan)
    return PooledError(sd, layout.df, layout.balanced, effects, spreads, layout)


def pooled_delta(pooled: PooledError, treatment: int, control: int, *, confidence: float = 0.95) -> Estimate:
    """Row `treatment` minus row `control` of the pooled table, both adjusted for their seeds."""
    mean = float(pooled.effects[treatment] - pooled.effects[control])
    if np.isnan(mean):
        return unknown(None, "one of the two cells has no loss", confidence)
    if pooled.layout.group[treatment] != pooled.layout.group[control]:
        return unknown(None, "the two cells share no seed, directly or through other cells", confidence)
    if pooled.sd is None:
        return unknown(mean, "no degree of freedom is left for the error", confidence)
    if pooled.sd == 0:
        return unknown(mean, "the losses do not vary beyond cell and seed", confidence)
    variance = pooled.layout.variance(treatment, control)
    return t_estimate(mean, pooled.sd * variance**0.5, pooled.df, confidence)


def pair_error(pooled: PooledError, treatment: int, control: int) -> float:
    """The standard error of the difference of two cells by their own spreads alone, as Welch's is."""
    own = pooled.own_variances
    return sqrt(own[treatment] + own[control])


WIDE = 0.05
"""The most often that a cell whose spread is that of the others is taken for a wider one: it is in the pooled
error too, so that fewer are."""


def wide_cells(pooled: PooledError) -> NDArray[np.bool_]:
    """Which cells spread wider than the pooled error: F of their own spread over it, one-sided at `WIDE`.

    What a check of all cells together passes may still hold one of these, and a claim about it, or against it
    as a control, rests on the delta's own error.
    """
    from scipy.special import fdtri

    beyond = pooled.layout.seeds - 1
    if not pooled.sd:
        return np.zeros(len(beyond), dtype=np.bool_)
    limits = fdtri(np.maximum(beyond, 1), pooled.df, 1 - WIDE)
    return np.asarray((beyond > 0) & ((pooled.spreads / pooled.sd) ** 2 > limits))


def no_narrower(estimate: Estimate, se: float) -> Estimate:
    """The estimate with this standard error where its own is smaller; one without an error stays as it is.

    For claims by an error that cells share, with the error that a cell's own losses give: a check of one
    variance misses many an uneven spread. The degrees of freedom stay those of the shared error.
    """
    if estimate.mean is None or not estimate.se or estimate.df is None or estimate.se >= se:
        return estimate
    return t_estimate(estimate.mean, se, estimate.df, estimate.confidence)

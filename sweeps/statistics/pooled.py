"""One error pooled over cells: y = cell + seed + error, with one variance for all cells.

Only for cells that pass `homogeneity.check_homogeneity`. Where the cells' variances differ, a pooled interval
is too narrow for one and too wide for another.
"""

from dataclasses import dataclass

import numpy as np

from .layout import Array, BlockLayout, block_layout, check_table, magnitude
from .student import ROUNDING, Estimate, t_estimate, unknown


@dataclass(frozen=True, eq=False)
class PooledError:
    """The residual standard deviation `sd` of a block design, with `df` degrees of freedom.

    `sd` is None where no degree of freedom is left. With every seed in every cell (`balanced`) this is the
    randomised complete block design, df = (cells − 1)(seeds − 1), and a difference of two cells has the
    standard error sd·√(2/seeds); otherwise it is ordinary least squares with df = N − cells − seeds + 1.
    `effects` are the cells' means adjusted for their seeds, around 0.
    """

    sd: float | None
    df: int
    balanced: bool
    effects: Array
    layout: BlockLayout


def pooled_error(losses: Array) -> PooledError:
    """Pool the error of a table of losses, cells × seeds, NaN where missing; ValueError under 2 cells."""
    table = check_table(losses, cells=2)
    layout = block_layout(~np.isnan(table))
    sd = None
    if layout.df > 0:
        sd = float(np.sqrt(np.sum(layout.residuals(table) ** 2) / layout.df))
        if sd <= ROUNDING * magnitude(table):
            sd = 0.0
    effects = np.where(layout.present.any(1), layout.effects(table), np.nan)
    return PooledError(sd, layout.df, bool(layout.present.all()), effects, layout)


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
    v = pooled.layout.inverse
    variance = v[treatment, treatment] + v[control, control] - 2 * v[treatment, control]
    return t_estimate(mean, pooled.sd * float(variance) ** 0.5, pooled.df, confidence)

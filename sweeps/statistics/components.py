"""The block design read as a mixed model: how much of the spread do seeds bring, and how much is left."""

from dataclasses import dataclass

import numpy as np

from .layout import Array, block_layout, check_table, magnitude
from .student import ROUNDING


@dataclass(frozen=True)
class VarianceComponents:
    """loss = cell + seed + error, with seeds drawn at random and one variance of the error.

    `correlation` is the seeds' share of both variances, and that of two cells at one seed: what pairing takes
    out. `f` and `p` ask whether the cells differ at all, with `cells_df` and `df` degrees of freedom
    (analysis of variance with repeated measures); of two cells, f is the square of their paired t.
    """

    seed_variance: float
    """0 where the seeds differ no more than the error makes them."""
    residual_variance: float
    correlation: float
    f: float
    cells_df: int
    df: int
    p: float


def variance_components(losses: Array) -> VarianceComponents | None:
    """The components of losses, cells × seeds, NaN where missing; None where nothing is left for the error.

    With every seed in every cell they are those of restricted maximum likelihood, as long as that of the
    seeds is positive. Otherwise they are Henderson's (1953, method 3): what the seeds explain beyond the
    cells, R, is set equal to its expectation (seeds − 1)·residual + (N − cells)·seed. ValueError under 2
    cells.
    """
    from scipy.special import fdtrc

    table = check_table(losses, cells=2)
    layout = block_layout(~np.isnan(table))
    cells = int(layout.present.any(1).sum())
    groups = len(set(layout.group[layout.present.any(1)].tolist()))
    seeds, total = int(layout.present.any(0).sum()), int(layout.present.sum())
    if layout.df < 1 or cells == groups or seeds == groups:
        return None
    left = float(np.sum(layout.residuals(table) ** 2))
    residual = left / layout.df
    if residual**0.5 <= ROUNDING * magnitude(table):
        return None
    by_seeds = _around_means(table, axis=1) - left
    by_cells = _around_means(table, axis=0) - left
    seed = max(0.0, (by_seeds - (seeds - groups) * residual) / (total - cells))
    f = max(0.0, by_cells) / (cells - groups) / residual
    return VarianceComponents(
        seed_variance=seed,
        residual_variance=residual,
        correlation=seed / (seed + residual),
        f=f,
        cells_df=cells - groups,
        df=layout.df,
        p=float(fdtrc(cells - groups, layout.df, f)),
    )


def _around_means(table: Array, axis: int) -> float:
    """The sum of squares around the means along an axis."""
    known = ~np.isnan(table)
    means = np.where(known, table, 0.0).sum(axis, keepdims=True) / np.maximum(
        known.sum(axis, keepdims=True), 1
    )
    return float(np.sum(np.where(known, table - means, 0.0) ** 2))

"""What a few seeds tell of a standard deviation, and how many cells together tell more."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, lgamma, log, sqrt

import numpy as np

from .layout import Array, check_table, magnitude
from .roots import root
from .student import ROUNDING, Estimate, check_confidence, t_estimate, unknown

MODERATED_CELLS = 8  # with fewer, the spread of the variances themselves is not known
_FLAT = "the deltas of this cell do not vary, or are fewer than 2: no variance to moderate"


def sd_limits(sd: float, df: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """The confidence interval of a normal standard deviation with `df` degrees of freedom (seeds − 1)."""
    check_confidence(confidence)
    if df < 1:
        raise ValueError(f"a standard deviation needs at least one degree of freedom, but df is {df}")
    from scipy.special import gammaincinv

    upper, lower = (2 * float(gammaincinv(df / 2, q)) for q in ((1 + confidence) / 2, (1 - confidence) / 2))
    return sd * sqrt(df / upper), sd * sqrt(df / lower)


def sd_bias(n: int) -> float:
    """c₄: the mean of the sample standard deviation of n normal values, in true standard deviations."""
    if n < 2:
        raise ValueError(f"a standard deviation needs at least 2 values, but n is {n}")
    return sqrt(2 / (n - 1)) * exp(lgamma(n / 2) - lgamma((n - 1) / 2))


@dataclass(frozen=True)
class ModeratedDeltas:
    """A second reading of every cell's delta, its variance shrunk toward that of all cells.

    `prior_sd` and `prior_df` are what the cells have in common (infinite `prior_df`: no sign that they
    differ). All are None, and every estimate says why, under 8 cells whose deltas vary.
    """

    deltas: tuple[Estimate, ...]
    prior_sd: float | None
    prior_df: float | None


def moderated_deltas(
    deltas: Array, controls: Sequence[Hashable], *, confidence: float = 0.95
) -> ModeratedDeltas:
    """Moderated t intervals for a table of deltas, cells × seeds, NaN where a pair is missing.

    The moderated variance of Smyth (2004), s̃² = (d₀s₀² + d·s²)/(d₀ + d) with d₀ + d degrees of freedom.
    Those are capped by what the cells' variances hold together, which is little when the deltas share a
    control: `controls` names the control of each cell, and deltas of one control are taken to correlate as
    they do on average here, but at least by ½.

    The intervals cover as stated on average over cells whose variances differ a little. A cell far noisier
    than the rest is covered less (95 % intervals at 3 seeds and standard deviations of .015, .049 and .002:
    93 % on average, 86 % at .049), so a claim about one cell rests on its own paired interval.
    """
    check_confidence(confidence)
    table = check_table(deltas)
    if len(controls) != len(table):
        raise ValueError(f"{len(table)} cells need {len(table)} controls, but there are {len(controls)}")
    known = ~np.isnan(table)
    n = known.sum(axis=1)
    means = np.where(known, table, 0.0).sum(axis=1) / np.maximum(n, 1)
    residuals = np.where(known, table - means[:, None], 0.0)
    squares = (residuals**2).sum(axis=1)
    varies = (n > 1) & (np.sqrt(squares) > ROUNDING * magnitude(table))
    moderated = [unknown(float(m) if k else None, _FLAT, confidence) for m, k in zip(means, n, strict=True)]
    if varies.sum() < MODERATED_CELLS:
        reason = f"needs {MODERATED_CELLS} cells whose deltas vary, but {varies.sum()} do"
        return ModeratedDeltas(tuple(replace(m, reason=reason) for m in moderated), None, None)
    rows = np.flatnonzero(varies)
    df = n[rows] - 1.0
    prior_variance, prior_df = _prior(squares[rows] / df, df)
    directions = residuals[rows] / np.sqrt(squares[rows])[:, None]
    most = _joint_df(directions, df, [controls[int(row)] for row in rows])
    for row, own in zip(rows, df.tolist(), strict=True):
        variance = prior_variance
        if prior_df < inf:
            variance = (prior_df * prior_variance + float(squares[row])) / (prior_df + own)
        total = max(min(prior_df + own, most), own)
        moderated[row] = t_estimate(float(means[row]), sqrt(variance / (own + 1)), total, confidence)
    return ModeratedDeltas(tuple(moderated), sqrt(prior_variance), prior_df)


def _prior(variances: Array, df: Array) -> tuple[float, float]:
    """s₀² and d₀ by the moments of log s² (Smyth 2004, section 6.2)."""
    from scipy.special import digamma, polygamma

    logs = np.log(variances) - digamma(df / 2) + np.log(df / 2)
    excess = float(np.var(logs, ddof=1) - np.mean(polygamma(1, df / 2)))
    if excess <= 0:  # the variances differ no more than those of one normal distribution would
        return float(np.average(variances, weights=df)), inf
    half = _inverse_trigamma(excess)
    return exp(float(np.mean(logs)) + float(digamma(half)) - log(half)), 2 * half


def _inverse_trigamma(value: float) -> float:
    from scipy.special import polygamma

    # bracketed by 1/x² < trigamma(x) < 1/x + 1/x²
    return root(lambda x: float(polygamma(1, x)) - value, min(1.0, 1 / sqrt(2 * value)) / 2, 1 + 2 / value)


def _joint_df(directions: Array, df: Array, controls: Sequence[Hashable]) -> float:
    """Degrees of freedom of the mean of the cells' variances: (Σdf)² / Σ √(df·df′)·ρ², over all ordered
    pairs.

    ρ is 1 of a cell with itself and 0 between controls (Satterthwaite's matching of two moments).
    `directions` are the cells' residuals at length 1, whose products are sample correlations.
    """
    groups: dict[Hashable, list[int]] = {}
    for row, control in enumerate(controls):
        groups.setdefault(control, []).append(row)
    pairs = correlation = weight = 0.0
    for rows in groups.values():
        pairs += len(rows) * (len(rows) - 1)
        correlation += float(np.sum(directions[rows].sum(axis=0) ** 2)) - len(rows)
        weight += float(np.sqrt(df[rows]).sum() ** 2 - df[rows].sum())
    rho = min(1.0, max(0.5, correlation / pairs)) if pairs else 0.0
    return float(df.sum() ** 2 / (df.sum() + rho**2 * weight))

"""Many cells against one: Dunnett's distribution of the largest t among deltas that share a control.

For a balanced table with one variance, where two deltas correlate by exactly ½. Otherwise use Holm.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

import numpy as np

from .layout import Array
from .pooled import PooledError
from .roots import root
from .student import Estimate, check_confidence, t_critical, upper_tail


@dataclass(frozen=True)
class DunnettDeltas:
    """Deltas against one control; the intervals hold at once, and `adjusted_p` are the family's.

    `deltas` and `adjusted_p` are in the table's order without the control's row; the p of an estimate is its
    own.
    """

    deltas: tuple[Estimate, ...]
    adjusted_p: tuple[float, ...]
    critical: float
    confidence: float


def dunnett_deltas(
    pooled: PooledError, control: int, *, confidence: float = 0.95, least: Sequence[float] = ()
) -> DunnettDeltas:
    """Every other row minus row `control`, by the pooled error with its own degrees of freedom.

    `least` may have an error for each of them that theirs is not to be below: see `no_narrower`. ValueError
    unless every cell has every seed, and the losses vary.
    """
    check_confidence(confidence)
    if not pooled.balanced or not pooled.sd:
        raise ValueError(
            "Dunnett's intervals need every seed in every cell and losses that vary; use holm instead"
        )
    rows = [row for row in range(len(pooled.effects)) if row != control]
    critical = dunnett_critical(1 - confidence, len(rows), pooled.df)
    se = pooled.sd * sqrt(2 / pooled.layout.present.shape[1])
    deltas = []
    adjusted = []
    for row, floor in zip(rows, least or [0.0] * len(rows), strict=True):
        mean = float(pooled.effects[row] - pooled.effects[control])
        error = max(se, floor)
        t = mean / error
        p = 2 * upper_tail(abs(t), pooled.df)
        half = critical * error
        deltas.append(
            Estimate(
                mean=mean,
                se=error,
                df=pooled.df,
                t=t,
                p=p,
                low=mean - half,
                high=mean + half,
                confidence=confidence,
            )
        )
        # for a large t, 1 − cdf is all rounding, and the exact bounds p and m·p hold it
        adjusted.append(min(max(1 - dunnett_cdf(abs(t), len(rows), pooled.df), p), len(rows) * p, 1.0))
    return DunnettDeltas(tuple(deltas), tuple(adjusted), critical, confidence)


@lru_cache(maxsize=256)
def dunnett_critical(alpha: float, comparisons: int, df: int, *, one_sided: bool = False) -> float:
    """The t that the largest |t| (or t, if one-sided) of the comparisons exceeds with probability alpha."""
    both_tails = 2 * alpha if one_sided else alpha
    single, bonferroni = t_critical(both_tails, df), t_critical(both_tails / comparisons, df)
    if comparisons == 1:
        return single

    def excess(t: float) -> float:
        return dunnett_cdf(t, comparisons, df, one_sided=one_sided) - (1 - alpha)

    return root(excess, single, bonferroni)


def dunnett_cdf(t: float, comparisons: int, df: int, *, one_sided: bool = False) -> float:
    """The probability that no |t| (or t, if one-sided) of the comparisons exceeds `t`.

    Dunnett (1955): given the control's mean z and the error s, the comparisons are independent, so the
    probability is ∫∫ [Φ(z + √2·t·s) − Φ(z − √2·t·s)]^m φ(z) dz f(s) ds, with s² distributed as χ²/df.
    """
    from scipy.special import ndtr

    z, z_weight, s, s_weight = _nodes(df)
    reach = np.sqrt(2) * t * s[:, None]
    if one_sided:
        inside = ndtr(z + reach)
    else:  # as much at −z as at z
        z, z_weight = z[len(z) // 2 :], 2 * z_weight[len(z) // 2 :]
        inside = ndtr(z + reach) - ndtr(z - reach)
    return float(s_weight @ (inside**comparisons) @ z_weight)


@lru_cache(maxsize=64)
def _nodes(df: int) -> tuple[Array, Array, Array, Array]:
    """Nodes and weights over the standard normal and over s, by Gauss and Legendre between far quantiles."""
    from scipy.special import gammainccinv, gammaincinv

    x, w = np.polynomial.legendre.leggauss(64)
    z = 9.0 * x
    z_weight = w * np.exp(-(z**2) / 2)
    low = np.sqrt(2 * gammaincinv(df / 2, 1e-13) / df)
    high = np.sqrt(2 * gammainccinv(df / 2, 1e-13) / df)
    s = (high + low) / 2 + (high - low) / 2 * x
    log_density = (df - 1) * np.log(s) - df * s**2 / 2
    s_weight = w * np.exp(log_density - log_density.max())
    return z, z_weight / z_weight.sum(), s, s_weight / s_weight.sum()

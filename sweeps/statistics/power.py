"""What a design can resolve: the smallest difference, the seeds needed, and the limits of few seeds."""

from functools import lru_cache
from math import isnan, pi, sqrt

import numpy as np

from .roots import root
from .student import t_critical


def power(difference: float, se: float, df: float, *, comparisons: int = 1, alpha: float = 0.05) -> float:
    """The probability that a two-sided t test finds a true `difference` that has the standard error `se`.

    alpha is shared equally by the comparisons (Bonferroni). Paired seeds: se = sd/√n and df = n − 1. Pooled
    over cells: se = sd·√(2/n) and df = (cells − 1)(n − 1).
    """
    if se <= 0 or df <= 0 or comparisons < 1:
        raise ValueError(
            f"power needs se > 0, df > 0 and comparisons ≥ 1, but {se=}, {df=} and {comparisons=}"
        )
    return _power(abs(difference) / se, df, t_critical(alpha / comparisons, df))


def _power(shift: float, df: float, critical: float) -> float:
    from scipy.special import nctdtr

    wrong_side = float(nctdtr(df, shift, -critical))
    # scipy answers NaN where this tail is below 1e-13
    return float(nctdtr(df, -shift, -critical)) + (0.0 if isnan(wrong_side) else wrong_side)


def smallest_difference(
    se: float, df: float, *, comparisons: int = 1, alpha: float = 0.05, target: float = 0.8
) -> float:
    """The true difference that `power` finds with probability `target`, in the units of `se`."""
    if not alpha < target < 1:
        raise ValueError(f"target must be between alpha and 1, like 0.8, but is {target}")
    power(0, se, df, comparisons=comparisons, alpha=alpha)  # the checks of its arguments
    critical = t_critical(alpha / comparisons, df)
    high = critical + 2
    while _power(high, df, critical) < target:
        high *= 2
    return se * root(lambda shift: _power(shift, df, critical) - target, 0, high)


def seeds_needed(
    difference: float, sd: float, *, comparisons: int = 1, alpha: float = 0.05, target: float = 0.8
) -> int:
    """The fewest paired seeds that find a true mean `difference` of deltas with standard deviation `sd`."""
    if difference == 0 or sd <= 0:
        raise ValueError(
            f"seeds_needed needs a difference other than 0 and sd > 0, but {difference=} and {sd=}"
        )

    def enough(n: int) -> bool:
        return power(difference, sd / sqrt(n), n - 1, comparisons=comparisons, alpha=alpha) >= target

    high = 2
    while not enough(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def outperforming_size(
    probability: float = 0.75, *, comparisons: int = 1, alpha: float = 0.05, target: float = 0.95
) -> float:
    """Jobs of each side that show a treatment lower in `probability` of all pairs with its control's jobs.

    N = [(Φ⁻¹(1 − α) − Φ⁻¹(1 − target)) / (√6·(½ − probability))]², 28.86 as it stands, so 29: Noether's
    (1987) size of the one-sided rank-sum test, which Bouthillier et al. (2021) recommend. It needs no
    standard deviation, and gives nothing for pairing. alpha is shared equally by the comparisons. ValueError
    unless ½ < probability < 1.
    """
    from scipy.special import ndtri

    if not 0.5 < probability < 1:
        raise ValueError(f"probability must be between 0.5 and 1, like 0.75, but is {probability}")
    if comparisons < 1 or not 0 < alpha < target < 1:
        raise ValueError(
            f"needs comparisons ≥ 1 and 0 < alpha < target < 1, but {comparisons=}, {alpha=}, {target=}"
        )
    quantiles = float(ndtri(1 - alpha / comparisons) - ndtri(1 - target))
    return (quantiles / (sqrt(6) * (0.5 - probability))) ** 2


def rank_test_floor(n: int) -> float:
    """2/2ⁿ: the smallest two-sided p that a sign-flip or Wilcoxon test of n pairs can reach."""
    if n < 1:
        raise ValueError(f"a test needs at least 1 pair, but n is {n}")
    return min(1.0, 2.0 ** (1 - n))


@lru_cache(maxsize=64)
def selection_bias(choices: int) -> float:
    """How far the smallest of `choices` equal means lies below the true one, in standard errors of a mean.

    The optimism of reporting the best learning rate on the seeds that chose it, at most: 0 for one choice,
    1.163 for five. It is E[max of k standard normals] = ∫ x·k·φ(x)·Φ(x)^(k−1) dx.
    """
    from scipy.special import ndtr

    if choices < 1:
        raise ValueError(f"selection needs at least 1 choice, but there are {choices}")
    if choices == 1:
        return 0.0
    x = np.linspace(-12, 12, 1537)  # the trapezoidal rule, which is exact for so smooth a bell
    density = choices * np.exp(-(x**2) / 2) * ndtr(x) ** (choices - 1)
    return float(x @ density / sqrt(2 * pi) / 64)

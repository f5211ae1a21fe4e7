"""Two models on the same items of a task: paired, since what is hard for one is hard for the other."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

RESAMPLES = 10_000


@dataclass(frozen=True)
class ItemDifference:
    """First minus second over the `n` items that both have: the mean, and its percentile bootstrap interval.

    `p` is McNemar's exact, two-sided, of items that are right or wrong (0 or 1); None for other scores. It
    says whether these two models differ on such items, and nothing of other seeds.
    """

    mean: float
    low: float
    high: float
    n: int
    p: float | None


def item_difference(
    first: Mapping[int, float], second: Mapping[int, float], *, confidence: float = 0.95, seed: int = 0
) -> ItemDifference:
    """The paired difference of scores by item. ValueError without a common item."""
    common = sorted(first.keys() & second.keys())
    if not common:
        raise ValueError("the two have no item in common")
    a, b = (np.array([scores[item] for item in common], dtype=np.float64) for scores in (first, second))
    low, high = _bootstrap(a - b, confidence, seed)
    binary = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    p = mcnemar(int(np.sum(a > b)), int(np.sum(a < b))) if binary else None
    return ItemDifference(float(np.mean(a - b)), low, high, len(common), p)


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided p that one model alone is right as often as the other alone (McNemar 1947), exact: the
    binomial of these discordant items at one half. 1 without any."""
    discordant = only_first + only_second
    return float(binomtest(only_first, discordant).pvalue) if discordant else 1.0


def _bootstrap(deltas: np.ndarray, confidence: float, seed: int) -> tuple[float, float]:
    """Percentiles of the mean over items drawn again, in pairs (Efron and Tibshirani 1993, ch. 13)."""
    generator = np.random.default_rng(seed)
    means = [generator.choice(deltas, len(deltas)).mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)

"""Two models on the same items of a task: paired, since what is hard for one is hard for the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES, FEWEST_RESAMPLES = 10_000, 1_000
MOST_DRAWS = 20_000_000
"""Of items in all resamples: long tasks have fewer resamples."""

_FEW_VALUES = 50
"""Differences of so many values or fewer are drawn by how often each is."""

Scores = Mapping[int, float]
"""Of one model, by item."""


@dataclass(frozen=True)
class ItemDifference:
    """First minus second over the `n` items that both have: the mean, and its percentile bootstrap interval.

    `p` is McNemar's exact, two-sided, of items that are right or wrong (0 or 1); None for other scores. It
    says whether these models differ on such items, and nothing of other seeds.
    """

    mean: float
    low: float
    high: float
    n: int
    p: float | None


def item_difference(
    first: Scores, second: Scores, *, confidence: float = 0.95, seed: int = 0
) -> ItemDifference:
    """The paired difference of scores by item. ValueError without a common item."""
    return item_difference_of_pairs([(first, second)], confidence=confidence, seed=seed)


def item_difference_of_pairs(
    pairs: Sequence[tuple[Scores, Scores]], *, confidence: float = 0.95, seed: int = 0
) -> ItemDifference:
    """The mean difference of several pairs of models, such as one a seed, over the items that all have.

    Answers to one item belong together, whichever model gave them: an item is drawn again with all its pairs,
    and `p` is by `sign_flip`. ValueError without a common item.
    """
    common = sorted(set.intersection(*(set(scores) for pair in pairs for scores in pair)))
    if not common:
        raise ValueError("the models have no item in common")
    a, b = (
        np.array([[pair[side][item] for item in common] for pair in pairs], dtype=np.float64)
        for side in (0, 1)
    )
    deltas = (a - b).mean(axis=0)
    low, high = _bootstrap(deltas, confidence, seed)
    binary = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    p = sign_flip((a - b).sum(axis=0).astype(np.int64)) if binary else None
    return ItemDifference(float(deltas.mean()), low, high, len(common), p)


def sign_flip(sums: NDArray[np.int64]) -> float:
    """Two-sided p that an item's difference is as likely to be of either sign, exact, for whole differences.

    With one pair of models that is `mcnemar`. With more it is McNemar's test of clustered pairs (Eliasziw and
    Donner 1991, Statistics in Medicine 10), by its permutation distribution in place of the normal.
    """
    sizes, counts = np.unique(np.abs(sums[sums != 0]), return_counts=True)
    chances = np.ones(1)
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        steps = np.zeros(2 * size * count + 1)
        steps[:: 2 * size] = _even_chances(count)
        chances = np.convolve(chances, steps)
    reach = len(chances) // 2  # the sum lies between minus and plus this
    totals = np.arange(-reach, reach + 1)
    return min(1.0, float(chances[np.abs(totals) >= abs(int(sums.sum()))].sum()))


def mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided p that one model alone is right as often as the other alone (McNemar 1947), exact: the
    binomial of these discordant items at one half. 1 without any."""
    from scipy.special import bdtr

    fewer = min(only_first, only_second)
    return min(1.0, 2 * float(bdtr(fewer, only_first + only_second, 0.5)))


def _even_chances(count: int) -> NDArray[np.float64]:
    """Of 0 … `count` heads of a fair coin thrown so often."""
    from scipy.special import gammaln

    heads = np.arange(count + 1)
    ways = gammaln(count + 1) - gammaln(heads + 1) - gammaln(count - heads + 1)
    chances: NDArray[np.float64] = np.exp(ways - count * np.log(2))
    return chances


def _bootstrap(deltas: NDArray[np.float64], confidence: float, seed: int) -> tuple[float, float]:
    """Percentiles of the mean over items drawn again (Efron and Tibshirani 1993, ch. 13)."""
    generator = np.random.default_rng(seed)
    values, counts = np.unique(deltas, return_counts=True)
    n = len(deltas)
    resamples = max(FEWEST_RESAMPLES, min(RESAMPLES, MOST_DRAWS // n))
    if len(values) <= _FEW_VALUES:  # how often each value is drawn says all
        means = generator.multinomial(n, counts / n, RESAMPLES) @ values / n
    else:
        means = np.array([generator.choice(deltas, n).mean() for _ in range(resamples)])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)

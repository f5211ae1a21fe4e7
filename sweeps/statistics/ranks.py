"""Tests by signs and ranks, that need no normal distribution; few pairs leave a floor under their p.

With three pairs no two-sided p of these can be below 0.25: a large one then says nothing (`rank_test_floor`).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .layout import Array, check_table
from .power import rank_test_floor
from .student import Values, finite_values

MOST_FLIPPED = 16
"""Pairs whose sign patterns are all counted, 65,536."""


def sign_flip(deltas: Values) -> float | None:
    """The two-sided p of the exact sign-flip test: the share of all 2ⁿ patterns with so large a |sum|.

    It assumes only that deltas are symmetric around 0 where there is no effect. It cannot go below
    `rank_test_floor(n)`: 0.25 at 3 pairs. None without a pair and above 16 of them.
    """
    x = np.asarray(deltas, dtype=np.float64)
    if not 1 <= len(x) <= MOST_FLIPPED:
        return None
    sums = np.abs(_signs(len(x)) @ x)
    # the first pattern is that of the deltas as they are; equal sums differ by rounding of the deltas
    return int(np.count_nonzero(sums >= sums[0] - 1e-12 * np.abs(x).sum())) / len(sums)


@lru_cache(maxsize=MOST_FLIPPED)
def _signs(n: int) -> NDArray[np.float64]:
    """Patterns × n. The first sign is fixed: a pattern and its negative have the same |sum|."""
    numbers = np.arange(2 ** (n - 1))[:, None]
    flipped = numbers >> np.arange(n) & 1
    return np.asarray(1.0 - 2 * flipped)


@dataclass(frozen=True)
class SignedRank:
    """Wilcoxon's signed-rank test: the `n` deltas other than 0, ranked by size.

    `positive` is V, the sum of the ranks of positive deltas. `p` is two-sided, `p_lower` that of a V so small
    or smaller (deltas below 0: the treatment is better), `p_higher` that of one so large or larger. All are
    exact, also with ties, and `p` cannot go below `floor`.
    """

    positive: float
    n: int
    p: float
    p_lower: float
    p_higher: float
    floor: float


def signed_rank(deltas: Values) -> SignedRank | None:
    """Wilcoxon's (1945) test of deltas that are symmetric around 0 where there is no effect.

    Deltas of exactly 0 are left out, as he did; tied sizes share the mean of their ranks. None where no delta
    differs from 0. ValueError for a delta that is not finite.
    """
    x = [delta for delta in finite_values(deltas, "deltas") if delta]
    if not x:
        return None
    sizes = sorted(map(abs, x))
    # ranks, doubled so that those of ties are whole
    twice = [bisect_left(sizes, abs(delta)) + bisect_right(sizes, abs(delta)) + 1 for delta in x]
    at_most = _rank_sums(tuple(sorted(twice)))
    positive = sum(rank for rank, delta in zip(twice, x, strict=True) if delta > 0)
    # every sum is as likely as that of the other deltas
    lower, higher = at_most[positive], at_most[sum(twice) - positive]
    return SignedRank(
        positive=positive / 2,
        n=len(x),
        p=min(1.0, 2 * min(lower, higher)),
        p_lower=min(1.0, lower),
        p_higher=min(1.0, higher),
        floor=rank_test_floor(len(x)),
    )


@lru_cache(maxsize=64)
def _rank_sums(ranks: tuple[int, ...]) -> list[float]:
    """The chance of each sum of the ranks of positive deltas, or a lower one, both signs being as likely."""
    chance = np.ones(1)
    for rank in ranks:
        grown = np.zeros(len(chance) + rank)
        grown[: len(chance)] = chance / 2
        grown[rank:] += chance / 2
        chance = grown
    return list(map(float, np.cumsum(chance)))


def outperforming(treatment: Values, control: Values) -> float | None:
    """The share of all pairs of a treatment's and a control's loss in which the treatment's is lower, ties ½.

    The probability of outperforming (Bouthillier et al. 2021), ½ where there is no difference: an effect
    size. The pairs are all pairs, of whatever seeds, so that spread which seeds share draws it toward ½.
    None where a side has no loss.
    """
    t = finite_values(treatment, "treatment")
    c = sorted(finite_values(control, "control"))
    if not t or not c:
        return None
    above = sum(2 * len(c) - bisect_left(c, loss) - bisect_right(c, loss) for loss in t) / 2
    return above / (len(t) * len(c))


@dataclass(frozen=True)
class Friedman:
    """Do the levels differ at all? By their ranks within each of `seeds` seeds, χ² with `df` degrees.

    Rough: χ² is an approximation that three seeds stretch, and says nothing of a shape.
    """

    statistic: float
    df: int
    p: float
    seeds: int


def friedman(losses: Array) -> Friedman | None:
    """Friedman's (1937) test over levels × seeds, NaN where missing, at the seeds that have every level.

    (levels − 1) times the share of the ranks' squares that the levels' mean ranks make up, times the seeds,
    which is his formula with the correction for ties. None under 3 levels or 2 such seeds, and where no seed
    tells its levels apart.
    """
    from scipy.special import chdtrc

    table = check_table(losses)
    complete = table[:, ~np.isnan(table).any(axis=0)]
    levels, seeds = complete.shape
    # a rank around the middle one is half the number of levels below less half the number above
    ranks = np.sign(complete[:, None] - complete).sum(axis=1) / 2
    squares = float(np.sum(ranks**2))
    if levels < 3 or seeds < 2 or not squares:
        return None
    statistic = (levels - 1) * float(np.sum(ranks.sum(axis=1) ** 2)) / squares
    return Friedman(statistic, levels - 1, float(chdtrc(levels - 1, statistic)), seeds)

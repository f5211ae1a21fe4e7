"""What else the runs of a fitted law could have been: runs drawn again, means drawn, and their middle 95 %.

Plain resampling of two or three runs varies too little, since they spread less around their own mean than
around the true one: an interval of three covers 75 %, and not 95.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import fsum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from .layout import Array
from .student import mean_and_sd


def drawn_again(
    setting: NDArray[np.intp], losses: Array, times: int, generator: np.random.Generator
) -> Array:
    """Losses (times, runs), each run's drawn with replacement from those of its setting, around their mean.

    Widened by √(n / (n − 1)) of the n runs of a setting, which gives their mean the variance that it has. One
    run alone stays what it is.
    """
    drawn = np.tile(losses, (times, 1))
    groups = [np.flatnonzero(setting == one) for one in range(setting.max() + 1)]
    groups = [group for group in groups if len(group) > 1]
    if not groups:
        return drawn
    sizes = np.concatenate([np.full(len(group), len(group)) for group in groups])
    picks = generator.integers(0, sizes, size=(times, len(sizes)))
    first = 0
    for group in groups:
        n, mean = len(group), losses[group].mean()
        again = losses[group][picks[:, first : first + n]]
        drawn[:, group] = mean + (n / (n - 1)) ** 0.5 * (again - mean)
        first += n
    return drawn


class Cells(NamedTuple):
    """What the jobs of cells tell of their true means."""

    means: list[float]
    drawn: Array
    """(cells, times): where each mean may lie, for as many laws of resampled runs."""


def drawn_cells(losses: Sequence[Sequence[float]], times: int, *, seed: int = 0) -> Cells:
    """Of cells with the losses of their jobs, one job or more a cell."""
    drawn = [drawn_means(of_cell, times, seed) for of_cell in losses]
    means = [fsum(of_cell) / len(of_cell) for of_cell in losses]
    return Cells(means, np.array(drawn).reshape(len(drawn), times))


def drawn_means(losses: Sequence[float], times: int, seed: int) -> Array:
    """Where the true mean of these runs may lie: their own, and their error by quantiles of Student's t.

    One run tells nothing of its error, and stands for itself.
    """
    values = [float(loss) for loss in losses]
    n = len(values)
    mean, sd = mean_and_sd(values) if n > 1 else (values[0], 0.0)
    if not sd:
        return np.full(times, mean)
    drawn: Array = mean + sd / n**0.5 * _t_draws(n - 1, times, seed)
    return drawn


@lru_cache(maxsize=64)
def _t_draws(df: int, times: int, seed: int) -> Array:
    quantiles = stdtrit(df, (np.arange(times) + 0.5) / times)
    return np.random.default_rng(seed).permutation(quantiles)


def middle(values: Sequence[float] | Array) -> tuple[float, float]:
    """The middle 95 %: the values nearest to its ends."""
    [low], [high] = middles(np.asarray(values, dtype=float)[None])
    return low, high


def middles(values: Array) -> tuple[list[float], list[float]]:
    """Of each row of (rows, values), the ends of its middle 95 %."""
    ordered = np.sort(values, axis=1)
    low, high = (ordered[:, round(share * (ordered.shape[1] - 1))] for share in (0.025, 0.975))
    return low.tolist(), high.tolist()

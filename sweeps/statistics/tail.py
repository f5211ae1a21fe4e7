"""The errors inside one job, between steps and over windows; neither is the error between seeds."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .layout import Array
from .student import ROUNDING, MeanEstimate, Values, finite_vector, mean_estimate


@dataclass(frozen=True)
class TailError:
    """The mean of a job's last evaluations, and its error between steps.

    `se` = sd·√(inflation/n) with sd the scatter around a straight line through the tail, `autocorrelation`
    that of neighbouring evaluations (at least 0), and `inflation` what it costs. With n near 10 these are
    rough. More evaluations shrink `se`, never the error between seeds.
    """

    mean: float
    sd: float
    se: float
    autocorrelation: float
    inflation: float
    n: int

    @property
    def effective_n(self) -> float:
        """The independent evaluations that would give the same error."""
        return self.n / self.inflation


def tail_error(evaluations: Values) -> TailError:
    """The error between steps of a tail mean, from its evaluations in order. ValueError under 6 of them.

    The line takes out what the learning-rate decay still gains. Lag-1 autocorrelation of the rest is
    corrected for its bias about a line, −(2 + 4ρ)/n, and taken as that of an AR(1) process.
    """
    y = finite_vector(evaluations, "evaluations")
    mean, sd, se, autocorrelation, inflation = (float(column[0]) for column in tail_columns(y[None, :]))
    return TailError(mean, sd, se, autocorrelation, inflation, len(y))


class TailColumns(NamedTuple):
    """The fields of `TailError`, each of many jobs."""

    mean: Array
    sd: Array
    se: Array
    autocorrelation: Array
    inflation: Array


def tail_columns(evaluations: Array) -> TailColumns:
    """As `tail_error`, of many jobs at once: of finite losses, jobs × evaluations."""
    n = evaluations.shape[1]
    if n < 6:
        raise ValueError(f"the error of a tail mean needs at least 6 evaluations, but there are {n}")
    x, squared = _places(n)
    mean = evaluations.mean(axis=1)
    slope = (evaluations * x).sum(axis=1) / squared
    scatter = evaluations - mean[:, None] - x * slope[:, None]
    squares = (scatter * scatter).sum(axis=1)
    sd = np.sqrt(squares / (n - 2))
    products = (scatter[:, 1:] * scatter[:, :-1]).sum(axis=1)
    rho = np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)
    rho = np.clip((n * rho + 2) / (n - 4), 0.0, 0.99)
    inflation = _inflation(n, rho)
    return TailColumns(mean, sd, sd * np.sqrt(inflation / n), rho, inflation)


def ar1_inflation(n: int, autocorrelation: float) -> float:
    """Variance of an AR(1) process's mean over that of n independent values: 1 + 2Σ(1 − k/n)ρᵏ."""
    if n < 1 or not -1 < autocorrelation < 1:
        raise ValueError(f"ar1_inflation needs n ≥ 1 and |ρ| < 1, but {n=} and ρ = {autocorrelation}")
    return float(_inflation(n, np.array([autocorrelation]))[0])


def _inflation(n: int, autocorrelations: Array) -> Array:
    k = np.arange(1, n)
    terms = (1 - k / n) * autocorrelations[:, None] ** k
    return np.asarray(1 + 2 * terms.sum(axis=1))


@lru_cache(maxsize=64)
def _places(n: int) -> tuple[Array, float]:
    """Those of n evaluations around their middle, and the sum of their squares."""
    x: Array = np.arange(n, dtype=np.float64) - (n - 1) / 2
    return x, float(x @ x)


def window_error(losses: Array | Sequence[Sequence[float]], *, confidence: float = 0.95) -> MeanEstimate:
    """The error over validation windows of a tail mean, or of a delta of two.

    `losses` are tail evaluations × windows: of one job, or the difference of two jobs on the same windows,
    where most of this error cancels. Windows count as independent draws of text.
    """
    table = np.asarray(losses, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"losses must be evaluations × windows, but have shape {table.shape}")
    return mean_estimate(table.mean(axis=0), confidence=confidence)


def window_standard_errors(losses: Array) -> Array:
    """`window_error`'s se of many jobs at once, each by one evaluation: of finite losses, jobs × windows."""
    sd = losses.std(axis=1, ddof=1)
    largest = np.abs(losses).max(axis=1)
    errors: Array = np.where(sd > ROUNDING * largest, sd, 0.0) / losses.shape[1] ** 0.5
    return errors

"""Student's t: its quantile and tails, and an estimate with its interval and test."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import fsum, isfinite, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = Sequence[float] | NDArray[np.float64]

# a spread below this share of the largest number involved is rounding, not noise
ROUNDING = 8 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate, its two-sided Student-t interval, and its two-sided test against 0.

    What cannot be known is None, never 0 or NaN, and `reason` then says why in one sentence.
    """

    mean: float | None
    se: float | None
    df: float | None
    t: float | None
    p: float | None
    low: float | None
    high: float | None
    confidence: float
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class MeanEstimate(Estimate):
    """The mean of `n` independent values; `sd` is their sample standard deviation."""

    sd: float | None
    n: int


@lru_cache(maxsize=1024)
def t_quantile(probability: float, df: float) -> float:
    """The t with `probability` of Student's distribution below it."""
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


@lru_cache(maxsize=1024)
def t_critical(alpha: float, df: float) -> float:
    """The t exceeded in absolute value with probability `alpha`."""
    return -t_quantile(alpha / 2, df)


def upper_tail(t: float, df: float) -> float:
    """The probability that Student's t exceeds `t`."""
    return float(_stdtr()(df, -t))


@cache
def _stdtr() -> Any:
    """scipy is loaded with the first table, not with the package; asking for it each time takes as long as
    the function itself."""
    from scipy.special import stdtr

    return stdtr


def t_estimate(mean: float, se: float, df: float, confidence: float = 0.95) -> Estimate:
    """An estimate from its standard error (above 0) and that error's degrees of freedom."""
    check_confidence(confidence)
    return Estimate(**_t_fields(mean, se, df, confidence))


def _t_fields(mean: float, se: float, df: float, confidence: float) -> dict[str, Any]:
    half = t_critical(1 - confidence, df) * se
    t = mean / se
    return {
        "mean": mean,
        "se": se,
        "df": df,
        "t": t,
        "p": 2 * upper_tail(abs(t), df),
        "low": mean - half,
        "high": mean + half,
        "confidence": confidence,
    }


def unknown(mean: float | None, reason: str, confidence: float = 0.95) -> Estimate:
    """An estimate without an error."""
    return Estimate(
        mean=mean,
        se=None,
        df=None,
        t=None,
        p=None,
        low=None,
        high=None,
        confidence=confidence,
        reason=reason,
    )


def mean_estimate(values: Values, *, confidence: float = 0.95, magnitude: float = 0.0) -> MeanEstimate:
    """The mean of independent values with its t interval (df = n − 1).

    No value: nothing is known. One value: no sd, interval or p. Values that do not vary: no t and no p; the
    interval is [0, 0] when all are 0, as between two equal jobs, and None when all equal another number,
    because the data then say nothing about their error.

    `magnitude` is the largest absolute number that the values are differences of: a spread that is only its
    rounding counts as none.
    """
    check_confidence(confidence)
    return MeanEstimate(**mean_fields(finite_values(values, "values"), confidence, magnitude))


def mean_fields(x: Sequence[float], confidence: float, magnitude: float) -> dict[str, Any]:
    """The fields of `mean_estimate`, for what has more of them; of finite numbers."""
    n = len(x)
    if n == 0:
        return _constant(None, None, 0, confidence, "no value")
    if n == 1:
        return _constant(fsum(x), None, 1, confidence, "one value has no standard deviation, interval or p")
    mean, sd = mean_and_sd(x, magnitude=magnitude)
    if sd == 0:
        all_are = "0" if mean == 0 else "equal"
        reason = f"all values are {all_are}: there is no variation to test against"
        return _constant(mean, 0.0, n, confidence, reason)
    return _t_fields(mean, sd / n**0.5, n - 1, confidence) | {"sd": sd, "n": n}


def sample_sd(x: Sequence[float], *, magnitude: float = 0.0) -> float:
    """Of two values or more; 0 where it is only rounding, as in `mean_estimate`."""
    return mean_and_sd(x, magnitude=magnitude)[1]


def interquartile_mean(x: Sequence[float]) -> float:
    """The mean without the lowest and the highest quarter of the values, each rounded down; under 4 values
    that is the mean. Of one value or more; the IQM of Agarwal et al. (2021)."""
    cut = len(x) // 4
    kept = sorted(map(float, x))[cut : len(x) - cut]
    return fsum(kept) / len(kept)


def mean_and_sd(x: Sequence[float], *, magnitude: float = 0.0) -> tuple[float, float]:
    """Of two values or more. A spread that is only rounding is 0, and so is then a mean that is."""
    mean = fsum(x) / len(x)
    sd = sqrt(fsum([(value - mean) ** 2 for value in x]) / (len(x) - 1))
    rounding = ROUNDING * max(magnitude, *map(abs, x))
    if sd > rounding:
        return mean, sd
    return (mean if abs(mean) > rounding else 0.0), 0.0


def _constant(mean: float | None, sd: float | None, n: int, confidence: float, reason: str) -> dict[str, Any]:
    limit = 0.0 if n > 1 and mean == 0 else None
    return {
        "mean": mean,
        "se": sd,  # None, or 0 like the sd
        "df": n - 1 if n > 1 else None,
        "t": None,
        "p": None,
        "low": limit,
        "high": limit,
        "confidence": confidence,
        "reason": reason,
        "sd": sd,
        "n": n,
    }


def check_confidence(confidence: float) -> None:
    """Raise ValueError unless 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, like 0.95, but is {confidence}")


def finite_values(values: Values, name: str) -> list[float]:
    """As `finite_vector`, of a handful: plain numbers are then faster than an array."""
    x = [float(value) for value in values]
    if not all(map(isfinite, x)):
        finite_vector(values, name)  # says which one
    return x


def finite_vector(values: Values, name: str) -> NDArray[np.float64]:
    """The values as a one-dimensional float array; ValueError when one is not a finite number."""
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, but has shape {x.shape}")
    if not np.isfinite(x).all():
        where = int(np.flatnonzero(~np.isfinite(x))[0])
        raise ValueError(
            f"{name}[{where}] is {x[where]}: leave diverged and missing seeds out, and count them"
        )
    return x

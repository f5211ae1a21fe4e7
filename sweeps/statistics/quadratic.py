"""The U as a fitted shape: a parabola over log₂ level (Lind and Mehlum), and two lines (Simonsohn).

Both fit the losses by least squares, the effect of each seed taken out, and assume one variance for all.
The contrasts of `ushape` assume neither shape nor variance: a claim rests on those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from .layout import Array, block_layout, check_table, magnitude
from .student import ROUNDING, check_confidence, finite_vector, t_critical, upper_tail


@dataclass(frozen=True)
class Slope:
    """Loss a doubling of the level; `p` is one-sided, for a fall on the left and a rise on the right."""

    slope: float
    se: float
    df: int
    p: float


@dataclass(frozen=True)
class Parabola:
    """loss = seed + b₁·x + b₂·x² over x = log₂ level − log₂ of the lowest.

    `p` is the larger of the ends': at level alpha both slopes then have the signs of a U (Lind and Mehlum
    2010). [low, high] is Fieller's interval of the level of the minimum, None where the curve is not shown to
    be convex, since the minimum may then be anywhere.
    """

    linear: float
    quadratic: float
    df: int
    left: Slope
    right: Slope
    p: float
    minimum: float | None
    """The level of the fitted minimum, such as a number of heads; at most 2^±1000 of the lowest level. None
    where the parabola is concave, and has a highest point instead."""
    low: float | None
    high: float | None
    confidence: float


def parabola(
    levels: Sequence[float], losses: Array, *, confidence: float = 0.95, seed_effects: bool = True
) -> Parabola | None:
    """Fit a parabola to losses, levels × seeds, NaN where missing; None where too few losses leave no error.

    `seed_effects=False` fits one constant for all seeds. ValueError for levels that are not positive.
    """
    check_confidence(confidence)
    table = check_table(losses)
    x = _doublings(levels, table)
    fit = _fit(table, [x, x**2], seed_effects)
    if fit is None:
        return None
    b, cov, df = fit
    end = float(x.max())
    left = _slope(float(b[0]), float(cov[0, 0]), df, -1)
    at_end = np.array([1.0, 2 * end])
    right = _slope(float(at_end @ b), float(at_end @ cov @ at_end), df, 1)
    low, high = _fieller(b, cov, t_critical(1 - confidence, df))
    lowest = min(levels)
    return Parabola(
        linear=float(b[0]),
        quadratic=float(b[1]),
        df=df,
        left=left,
        right=right,
        p=max(left.p, right.p),
        minimum=lowest * 2 ** _minimum(b) if b[1] >= 0 else None,
        low=None if low is None else lowest * 2**low,
        high=None if high is None else lowest * 2**high,
        confidence=confidence,
    )


@dataclass(frozen=True)
class TwoLines:
    """A line through the levels up to `last_left`, and one through those above; `p` is the larger one."""

    last_left: float
    left: Slope
    right: Slope
    p: float


FEWEST_A_LINE = 3
"""Levels of each of two lines: two points always lie on one."""


def two_lines(levels: Sequence[float], losses: Array, last_left: float) -> TwoLines | None:
    """Fall to the left of a break and rise to its right (Simonsohn 2018), the break fixed beforehand.

    Losses are levels × seeds, NaN where missing; each seed's effect over all levels is taken out first, and
    not charged to the error. None with fewer than 3 levels on a side.
    """
    table = check_table(losses)
    x = _doublings(levels, table)
    left = np.asarray(levels, dtype=np.float64) <= last_left
    if min(left.sum(), (~left).sum()) < FEWEST_A_LINE:
        return None
    table = _seed_centred(table)
    slopes = []
    for side, sign in ((left, -1), (~left, 1)):
        fit = _fit(table[side], [x[side]], False)
        if fit is None:
            return None
        b, cov, df = fit
        slopes.append(_slope(float(b[0]), float(cov[0, 0]), df, sign))
    return TwoLines(last_left, slopes[0], slopes[1], max(slopes[0].p, slopes[1].p))


def _seed_centred(table: Array) -> Array:
    """The losses without the effect of their seed, adjusted for the levels that the seed has."""
    layout = block_layout(~np.isnan(table))
    return np.asarray(table - np.nanmean(table - layout.effects(table)[:, None], axis=0))


def _doublings(levels: Sequence[float], table: Array) -> Array:
    x = finite_vector(levels, "levels")
    if len(x) != len(table) or len(x) == 0 or x.min() <= 0:
        raise ValueError(f"losses of {len(table)} rows need as many positive levels, but got {list(levels)}")
    return np.asarray(np.log2(x / x.min()))


def _fit(table: Array, terms: list[Array], seed_effects: bool) -> tuple[Array, Array, int] | None:
    """Least squares of the losses on `terms` and a constant (a seed each): coefficients, covariance, df."""
    known = ~np.isnan(table)
    solved = _design(
        known.tobytes(), known.shape, tuple(tuple(term.tolist()) for term in terms), seed_effects
    )
    if solved is None:
        return None
    design, solution, inverse = solved
    y = table[known]
    y = y - y.mean()  # the constants would take it up: so it rounds less
    df = int(len(y) - design.shape[1])
    b = solution @ y
    residuals = y - design @ b
    if np.sqrt(residuals @ residuals) <= ROUNDING * magnitude(table) * len(y):
        return None
    cov = inverse * float(residuals @ residuals) / df
    size = len(terms)
    return b[:size], cov[:size, :size], df


@lru_cache(maxsize=64)
def _design(
    known: bytes, shape: tuple[int, int], terms: tuple[tuple[float, ...], ...], seed_effects: bool
) -> tuple[Array, Array, Array] | None:
    """The design of `_fit`, its pseudo-inverse and the inverse of its normal equations, made once for all
    lines of equal levels and seeds; None where no degree of freedom is left, or columns depend on each other.
    """
    rows, seeds = np.nonzero(np.frombuffer(known, dtype=np.bool_).reshape(shape))
    groups = np.unique(seeds) if seed_effects else [None]
    constants = [seeds == s if s is not None else np.ones(len(seeds)) for s in groups]
    columns = [*(np.array(term)[rows] for term in terms), *constants]
    design = np.stack(columns, axis=1).astype(np.float64)
    if len(rows) <= design.shape[1] or np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    solution = np.asarray(np.linalg.pinv(design), dtype=np.float64)
    return design, solution, solution @ solution.T


def _slope(slope: float, variance: float, df: int, sign: int) -> Slope:
    se = variance**0.5
    return Slope(slope, se, df, upper_tail(sign * slope / se, df))


def _minimum(b: Array) -> float:
    """Where b₁·x + b₂·x² is lowest, for b₂ ≥ 0; a straight line has its end far away on either side."""
    linear, quadratic = b.tolist()
    if not quadratic:
        return -1000.0 if linear > 0 else 1000.0 if linear else 0.0
    return float(min(max(-linear / (2 * quadratic), -1000.0), 1000.0))


def _fieller(b: Array, cov: Array, critical: float) -> tuple[float | None, float | None]:
    """Every x at which the slope b₁ + 2·b₂·x may be 0 (Fieller 1954); open where that is no interval, or the
    curve is concave there."""
    squared = critical**2
    a = 4 * float(b[1] ** 2 - squared * cov[1, 1])
    half = 2 * float(b[0] * b[1] - squared * cov[0, 1])
    c = float(b[0] ** 2 - squared * cov[0, 0])
    root = half**2 - a * c
    if b[1] <= 0 or a <= 0 or root < 0:
        return None, None
    return (-half - root**0.5) / a, (-half + root**0.5) / a

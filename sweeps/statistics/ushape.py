"""Is the curve over an axis a U, is it flat, is it bent? Each has its own test on per-seed contrasts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import numpy as np

from .layout import Array, check_table, magnitude
from .seeds import staged_estimate
from .student import MeanEstimate, Values, finite_vector, mean_and_sd, upper_tail


@dataclass(frozen=True)
class EndContrast:
    """One end against the middle: `rises` per seed, their mean and two-sided interval, a one-sided p."""

    end: float
    rises: tuple[float, ...]
    rise: MeanEstimate
    p: float | None


@dataclass(frozen=True)
class Equivalence:
    """Two one-sided tests of every pair of `levels` at ±margin; `p` is that of the pair shown least equal."""

    levels: tuple[float, ...]
    margin: float
    widest: tuple[float, float]
    p: float | None
    equivalent: bool


@dataclass(frozen=True)
class UShape:
    """`u_shaped` if every end lies above the middle, at level alpha: `p` is the largest of the ends'.

    `flat_curve` compares all levels, `flat_middle` those of the middle (None without a margin, or with one
    middle level). A curve may be a U and flat within the margin, or, with few seeds, be shown to be neither.
    """

    middle: tuple[float, ...]
    ends: tuple[EndContrast, ...]
    p: float | None
    u_shaped: bool
    flat_curve: Equivalence | None
    flat_middle: Equivalence | None
    alpha: float


def u_shape(
    levels: Sequence[float],
    losses: Array,
    *,
    ends: Sequence[float],
    middle: Sequence[float],
    flat_margin: float | None = None,
    alpha: float = 0.05,
    start: int | None = None,
) -> UShape:
    """Test for a U by end-versus-middle contrasts; `losses` are levels × seeds, NaN where missing.

    A seed's rise at an end is its loss there minus the mean of its losses at the middle levels. If both ends
    lie above that mean, some middle level lies below both ends, which is what a U claims. Each end has a
    one-sided paired t; all must pass, so that the largest p needs no correction (intersection-union; Berger
    1982).

    The middle must have been fixed before these seeds were seen, or on other seeds: with the middle taken
    from the lowest losses, noise alone makes a U. `start` is for seeds that a rule added to the first `start`
    columns: see `staged_estimate`. ValueError for ends or a middle that are not levels, and
    unless there are ends on both sides of the middle.
    """
    table = _check_levels(levels, losses)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must be between 0 and 0.5, like 0.05, but is {alpha}")
    rows = dict(zip(levels, table, strict=True))
    for name, chosen in (("ends", ends), ("middle", middle)):
        for level in chosen:
            if level not in rows:
                raise ValueError(f"{name} has {level:g}, but the levels are {_listed(levels)}")
    if not middle or not all(end < min(middle) or end > max(middle) for end in ends):
        raise ValueError(f"ends {_listed(ends)} must lie outside the middle {_listed(middle)}")
    if not (any(end < min(middle) for end in ends) and any(end > max(middle) for end in ends)):
        raise ValueError(
            f"a U needs an end on each side of the middle {_listed(middle)}, but has {_listed(ends)}"
        )
    bottom = np.mean([rows[level] for level in middle], axis=0)
    contrasts = tuple(_end_contrast(end, rows[end] - bottom, table, alpha, start) for end in ends)
    p = _largest([contrast.p for contrast in contrasts])
    flat_curve = flat_middle = None
    if flat_margin is not None:
        flat_curve = equivalence(levels, table, margin=flat_margin, alpha=alpha, start=start)
        if len(middle) > 1:
            lowest = np.array([rows[level] for level in middle])
            flat_middle = equivalence(middle, lowest, margin=flat_margin, alpha=alpha, start=start)
    return UShape(tuple(middle), contrasts, p, p is not None and p <= alpha, flat_curve, flat_middle, alpha)


def _end_contrast(end: float, rises: Array, table: Array, alpha: float, start: int | None) -> EndContrast:
    rise = staged_estimate(rises, start, confidence=1 - alpha, magnitude=magnitude(table))
    p = None if rise.t is None or rise.df is None else upper_tail(rise.t, rise.df)
    return EndContrast(end, tuple(rises[~np.isnan(rises)].tolist()), rise, p)


def equivalence(
    levels: Sequence[float],
    losses: Array,
    *,
    margin: float,
    alpha: float = 0.05,
    start: int | None = None,
) -> Equivalence:
    """Are all levels equal within ±margin? `losses` are levels × seeds, NaN where missing.

    Two one-sided paired t tests (Schuirmann 1987) for each pair of levels, at the seeds that both have; all
    must pass. A difference that is not significant is no evidence for this. A pair whose differences do not
    vary, or with one seed, has no p, and neither has the whole. `start` is as in `u_shape`. ValueError with
    one level or a margin that is not positive.
    """
    table = _check_levels(levels, losses)
    if len(levels) < 2:
        raise ValueError(f"equivalence compares at least 2 levels, but got {_listed(levels)}")
    if not margin > 0:
        raise ValueError(f"margin must be positive, in the units of the loss, but is {margin}")
    largest = magnitude(table)
    results: dict[tuple[float, float], float | None] = {}
    for (a, first), (b, second) in combinations(zip(levels, table, strict=True), 2):
        results[a, b] = _tost(first - second, margin, largest, start)
    p = _largest(list(results.values()))
    widest = max(results, key=lambda pair: 1.0 if (p := results[pair]) is None else p)
    return Equivalence(tuple(levels), margin, widest, p, p is not None and p <= alpha)


def _tost(differences: Array, margin: float, largest: float, start: int | None) -> float | None:
    """As from `staged_estimate`, of which a pair of levels needs little."""
    known = [x for x in differences.tolist() if x == x]
    first = len(known) if start is None else int(np.sum(~np.isnan(differences[:start])))
    if first < 2:
        return None
    mean, sd = mean_and_sd(known, magnitude=largest)
    if first < len(known):
        sd = mean_and_sd(known[:first])[1]
    return upper_tail((margin - abs(mean)) / (sd / len(known) ** 0.5), first - 1) if sd else None


def curvature(
    levels: Sequence[float], losses: Array, *, confidence: float = 0.95, start: int | None = None
) -> tuple[MeanEstimate, tuple[float, ...]]:
    """The quadratic coefficient of the loss over log₂ level: its mean, and its value at each seed.

    In loss per squared doubling; positive is convex. Only seeds with every level count. Convex is not yet a
    U: a curve that falls ever more slowly is convex too. `start` is as in `u_shape`. ValueError under 3
    levels or for a level that is not positive.
    """
    table = _check_levels(levels, losses)
    weights = quadratic_weights(levels)
    values = weights @ table
    largest = magnitude(table) * float(np.abs(weights).sum())
    bend = staged_estimate(values, start, confidence=confidence, magnitude=largest)
    return bend, tuple(values[~np.isnan(values)].tolist())


def quadratic_weights(levels: Sequence[float]) -> Array:
    """The contrast that gives the quadratic coefficient over x = log₂ level: 0 for a line, 1 for x²."""
    if len(levels) < 3 or min(levels) <= 0:
        raise ValueError(f"curvature needs at least 3 positive levels, but got {_listed(levels)}")
    return _bend(tuple(finite_vector(levels, "levels").tolist()))


@lru_cache(maxsize=64)
def _bend(levels: tuple[float, ...]) -> Array:
    """Made once for all lines over the same levels."""
    x = np.log2(levels)
    line = np.stack([np.ones_like(x), x - x.mean()], axis=1)
    bend = (x - x.mean()) ** 2
    bend = bend - line @ np.linalg.lstsq(line, bend, rcond=None)[0]
    return np.asarray(bend / (bend @ bend))


def _check_levels(levels: Sequence[float], losses: Array) -> Array:
    table = check_table(losses)
    if len(levels) != len(table) or len(set(levels)) != len(levels):
        raise ValueError(
            f"losses of {len(table)} rows need as many different levels, but got {_listed(levels)}"
        )
    return table


def _largest(p_values: Sequence[float | None]) -> float | None:
    known = [p for p in p_values if p is not None]
    return max(known) if len(known) == len(p_values) else None


def _listed(levels: Values) -> str:
    return ", ".join(f"{level:g}" for level in levels) or "none"

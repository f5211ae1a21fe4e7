"""Which cells may be the best, and what a fixed choice costs against the best.

The best is not known, so every bound pays for the choice: they are paired t bounds, so that cells may differ
in variance, with Bonferroni's correction over the cells that could be the best.
"""

from dataclasses import dataclass

import numpy as np

from .layout import Array, block_layout, check_table, magnitude
from .student import check_confidence, mean_and_sd, t_quantile


@dataclass(frozen=True)
class CellStanding:
    """A cell against the best of the others.

    [low, high] is the interval of its true loss minus the lowest of the others': a negative low says how much
    better than all others it may be, high how much worse. None where too few seeds leave it open.
    `may_be_best` is false only if some other cell is shown to be better.
    """

    mean: float | None
    low: float | None
    high: float | None
    may_be_best: bool


@dataclass(frozen=True)
class BestCells:
    """`lowest` is the row of the lowest mean, adjusted for seeds; `standings` are in the table's order."""

    lowest: int
    standings: tuple[CellStanding, ...]
    confidence: float


def best_cells(losses: Array, *, confidence: float = 0.95, start: int | None = None) -> BestCells:
    """The set of cells that may be the best, and simultaneous intervals.

    `losses` are cells × seeds, NaN where missing. Multiple comparisons with the best (Hsu 1984), with
    paired errors in place of a pooled one. With probability `confidence` at least, the truly best cell is in
    the set and all intervals hold. Means are compared at each pair's common seeds. `start` is for seeds that
    a rule added to the first `start` columns, whose spread alone then measures the errors (as in
    `staged_estimate`). ValueError with fewer than 2 cells, or with no loss at all.
    """
    check_confidence(confidence)
    table = check_table(losses, cells=2)
    present = ~np.isnan(table)
    seen = np.any(present, axis=1)
    if not seen.any():
        raise ValueError("no cell has a loss")
    _, low, high = _differences(table, (1 - confidence) / (len(table) - 1), start)
    shown, possible = low.max(axis=1), high.max(axis=1)
    means = np.where(present, table, 0.0).sum(axis=1) / np.maximum(present.sum(axis=1), 1)
    standings = tuple(
        CellStanding(
            mean=float(mean) if known else None,
            low=_finite(min(worse, 0.0)),
            high=_finite(max(at_most, 0.0)),
            may_be_best=bool(worse <= 0),
        )
        for mean, known, worse, at_most in zip(means, seen, shown, possible, strict=True)
    )
    effects = np.where(seen, block_layout(present).effects(table), np.inf)
    return BestCells(int(np.argmin(effects)), standings, confidence)


@dataclass(frozen=True)
class Regret:
    """What row `rule` loses against the best cell, which is not known: `best` only has the lowest mean.

    `mean` is the difference of these two, too high on average because `best` was chosen by the same losses.
    The interval pays for that choice. Its low end is 0 unless some cell is shown to be better than the
    rule's; its high end is None where too few seeds leave it open.
    """

    rule: int
    best: int
    mean: float
    low: float
    high: float | None
    seeds: int
    confidence: float


def rule_regret(losses: Array, rule: int, *, confidence: float = 0.95, start: int | None = None) -> Regret:
    """The regret of always choosing row `rule`, as H = KV does: its true loss minus the lowest of all cells.

    `losses` are cells × seeds, NaN where missing, for the cells among which the rule chooses (one number of
    KV heads, all H). `rule` is fixed beforehand. `seeds` counts those that the rule's cell shares with
    `best`; `start` is as in `best_cells`. ValueError with fewer than 2 cells, or without a loss of the
    rule's.
    """
    check_confidence(confidence)
    table = check_table(losses, cells=2)
    if not 0 <= rule < len(table) or np.isnan(table[rule]).all():
        raise ValueError(f"the rule's cell, row {rule} of {len(table)}, has no loss")
    difference, low, high = (
        bounds[rule] for bounds in _differences(table, (1 - confidence) / (2 * (len(table) - 1)), start)
    )
    best = int(np.nanargmax(difference))
    return Regret(
        rule=rule,
        best=best,
        mean=float(difference[best]),
        low=max(float(low.max()), 0.0),
        high=_finite(max(float(high.max()), 0.0)),
        seeds=int(np.sum(~np.isnan(table[rule]) & ~np.isnan(table[best]))),
        confidence=confidence,
    )


def _differences(table: Array, tail: float, start: int | None) -> tuple[Array, Array, Array]:
    """Row minus column by common seeds: the mean, and its one-sided bounds at level `tail` below and above.

    Infinite where the seeds tell nothing. On the diagonal the mean is 0 and both bounds are −∞, so that a
    maximum over a row's bounds is over the other cells.
    """
    size = len(table)
    mean = np.zeros((size, size))
    low, high = np.full((2, size, size), -np.inf)
    largest = magnitude(table)
    for i in range(size):
        for j in range(i):
            pairs = table[i] - table[j]
            known = ~np.isnan(pairs)
            first = None if start is None else int(known[:start].sum())
            mean[i, j], reach = _mean_and_reach(pairs[known].tolist(), first, tail, largest)
            mean[j, i] = -mean[i, j]
            if reach is None:
                high[i, j] = high[j, i] = np.inf
                continue
            low[i, j], high[i, j] = mean[i, j] - reach, mean[i, j] + reach
            low[j, i], high[j, i] = -high[i, j], -low[i, j]
    return mean, low, high


def _mean_and_reach(
    x: list[float], first: int | None, tail: float, largest: float
) -> tuple[float, float | None]:
    """The mean of differences, and how far its bounds at level `tail` lie, by the spread of the `first` ones;
    None where nothing tells."""
    if len(x) < 2:
        return (x[0] if x else np.nan), None
    mean, sd = mean_and_sd(x, magnitude=largest)
    measured = len(x) if first is None else first
    if measured < 2:
        return mean, None
    if measured < len(x):
        sd = mean_and_sd(x[:measured], magnitude=largest)[1]
    if sd == 0 and mean != 0:
        return mean, None
    return mean, -t_quantile(tail, measured - 1) * (sd / len(x) ** 0.5)


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None

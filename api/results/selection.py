"""Choices made by looking at the losses: the best cell, the rule H = KV, the best learning rate."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.api.results.adaptive import first_stage
from headcount.api.results.curves import HEADS, KV_HEADS, groups, head_curve
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import best_cells, loss_table, rule_regret, selection_bias

RATE = "train.peak_lr"


@dataclass(frozen=True)
class Standing:
    """A cell against the best of the others of its line: the interval of its true loss minus theirs."""

    cell: int
    low: float | None
    high: float | None
    may_be_best: bool
    """False only if some other cell is shown to be better."""


@dataclass(frozen=True)
class BestSet:
    """The cells of one line that may be its best, all intervals at once (Hsu, paired, Bonferroni)."""

    settings: dict[str, Any]
    lowest: int
    """The cell with the lowest mean, adjusted for seeds."""
    size: int
    """Cells compared."""
    confidence: float
    standings: tuple[Standing, ...]


@dataclass(frozen=True)
class HeadsRule:
    """What always taking as many routing heads as KV heads loses against the best of the line."""

    settings: dict[str, Any]
    cell: int
    """The one at H = KV."""
    best: int
    regret: float
    """Loss at H = KV minus the lowest: too high on average, the lowest being chosen by the same losses."""
    low: float
    high: float | None
    """The interval pays for that choice; None where too few seeds leave it open."""
    seeds: int
    confidence: float


@dataclass(frozen=True)
class RateChoice:
    """The best learning rate of one setting, chosen by the losses that it reports."""

    settings: dict[str, Any]
    is_control: bool
    cell: int
    rate: float
    choices: int
    """Of `compared`."""
    compared: tuple[float, ...]
    """The rates with a mean over as many seeds."""
    at_edge: bool
    """No rate on one side was tried: the best may lie beyond the grid."""
    bias: float | None
    """How far below the truth the reported mean lies at most, on average (rates truly equal)."""


def best_sets(table: AblationTable) -> tuple[BestSet, ...]:
    """The best-cell set of every line of the head curve that has two cells with a loss.

    None of a search, whose cells were chosen by what it saw of the others.
    """
    if table.fresh_seeds:
        return ()
    found = []
    for line in head_curve(table).lines if table.axes and table.treatments else ():
        rows = _with_losses(line.points)
        if len(rows) > 1:
            losses, start = _losses(table, rows)
            best = best_cells(losses, confidence=table.confidence, start=start)
            standings = tuple(
                Standing(row.cell, s.low, s.high, s.may_be_best)
                for row, s in zip(rows, best.standings, strict=True)
            )
            found.append(
                BestSet(line.settings, rows[best.lowest].cell, len(rows), best.confidence, standings)
            )
    return tuple(found)


def heads_rules(table: AblationTable) -> tuple[HeadsRule, ...]:
    """The regret of H = KV on every line over the routing heads that has a cell there; none of a search."""
    if HEADS not in table.axes or KV_HEADS not in table.axes or table.fresh_seeds:
        return ()
    found = []
    for line in head_curve(table, HEADS).lines:
        rows = _with_losses(line.points)
        at = [i for i, r in enumerate(rows) if r.settings[HEADS] == r.settings.get(KV_HEADS)]
        if len(rows) > 1 and at:
            losses, start = _losses(table, rows)
            regret = rule_regret(losses, at[0], confidence=table.confidence, start=start)
            found.append(
                HeadsRule(
                    settings=line.settings,
                    cell=rows[at[0]].cell,
                    best=rows[regret.best].cell,
                    regret=regret.mean,
                    low=regret.low,
                    high=regret.high,
                    seeds=regret.seeds,
                    confidence=regret.confidence,
                )
            )
    return tuple(found)


def rate_choices(table: AblationTable) -> tuple[RateChoice, ...]:
    """The best learning rate of every setting of the other axes, treatments and controls alike.

    None of a search, which tries more rates where it finds low losses.
    """
    rates = sorted(table.axes.get(RATE, ()))
    if len(rates) < 2 or table.fresh_seeds:
        return ()
    found = []
    for rows, is_control in ((table.controls, True), (table.treatments, False)):
        for settings, members in groups(table, rows, [RATE]):
            told = [row for row in members if row.mean is not None]
            most = max((row.n for row in told), default=0)
            told = [row for row in told if row.n == most]
            if not told:
                continue
            best = min(told, key=lambda row: row.mean or 0.0)
            errors = [row.se for row in told if row.se is not None]
            se = float(np.sqrt(np.mean(np.square(errors)))) if errors else None
            found.append(
                RateChoice(
                    settings=settings,
                    is_control=is_control,
                    cell=best.cell,
                    rate=best.settings[RATE],
                    choices=len(told),
                    compared=tuple(sorted(row.settings[RATE] for row in told)),
                    at_edge=best.settings[RATE] in (rates[0], rates[-1]),
                    bias=None if se is None else selection_bias(len(told)) * se,
                )
            )
    return tuple(found)


def _with_losses(points: Sequence[TableRow | None]) -> list[TableRow]:
    return [p for p in points if p and p.losses and not p.seeds_diverged]


def _losses(table: AblationTable, rows: Sequence[TableRow]) -> tuple[Any, int | None]:
    """The losses of the rows by seed; how many of these seeds measure the error, where a rule added some."""
    seeds, losses = loss_table([dict(zip(row.seeds, row.losses, strict=True)) for row in rows])
    return losses, first_stage(table.first_seeds, seeds)

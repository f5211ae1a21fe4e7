"""How many seeds each cell is to have: Stein's second stage, alike for what one contrast compares."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headcount.sweeps.file.adaptive import SeedRule
from headcount.sweeps.file.sections import Analysis
from headcount.sweeps.statistics.seeds import plan_seeds


class Pair(NamedTuple):
    """A treatment and its control, with the deltas of the first stage by seed as far as they are known."""

    cell: int
    control: int
    settings: Mapping[str, Any]
    deltas: Mapping[int, float]


def seeds_wanted(pairs: Sequence[Pair], rule: SeedRule, analysis: Analysis | None = None) -> dict[int, int]:
    """Seeds, counted from 0, that each cell is to have; a cell whose first stage is not known is left out.

    Of the cells that one contrast of the `analysis` compares all get as many as the one that needs most, and
    a control as many as any of its treatments: sums over seeds need every cell at each. The numbers depend on
    the spread of the first deltas alone, so every interval by Stein's rule still covers as stated.
    """
    totals = {
        pair.cell: plan_seeds(first, rule.half_width, rule.max).total
        for pair in pairs
        if (first := first_stage(pair.deltas, rule)) is not None
    }
    for contrast in _contrasts(pairs, analysis):
        known = [totals[cell] for cell in contrast if cell in totals]
        totals.update({cell: max(known) for cell in contrast if cell in totals})
    for pair in pairs:
        if pair.cell in totals:
            totals[pair.control] = max(totals.get(pair.control, 0), totals[pair.cell])
    return totals


def first_stage(deltas: Mapping[int, float], rule: SeedRule) -> list[float] | None:
    """The deltas of the rule's first seeds in their order; none before all are known."""
    if any(seed not in deltas for seed in range(rule.start)):
        return None
    return [deltas[seed] for seed in range(rule.start)]


def _contrasts(pairs: Sequence[Pair], analysis: Analysis | None) -> list[list[int]]:
    """Cells at an end or in the middle of the analysis, together where all their other settings are equal."""
    if analysis is None:
        return []
    compared = (*analysis.ends, *analysis.middle)
    together: dict[tuple[tuple[str, Any], ...], list[int]] = defaultdict(list)
    for pair in pairs:
        if pair.settings.get(analysis.axis) in compared:
            rest = tuple(sorted((k, v) for k, v in pair.settings.items() if k != analysis.axis))
            together[rest].append(pair.cell)
    return list(together.values())

"""Is it real? The paired statistics of a sweep: each delta within its family, the pooled error, the U."""

from dataclasses import dataclass, field
from functools import lru_cache

from headcount.api.results.compared import DunnettFamily, Moderation, Pooling, compared
from headcount.api.results.comparisons import CellComparison
from headcount.api.results.families import Family, alpha_of, paired_rows
from headcount.api.results.noise import NoiseFloor, Resolution, noise_floor, resolution_of
from headcount.api.results.selection import (
    BestSet,
    HeadsRule,
    RateChoice,
    best_sets,
    heads_rules,
    rate_choices,
)
from headcount.api.results.shapes import LineShape, line_shapes, shape_family
from headcount.api.results.tables import AblationTable


@dataclass(frozen=True)
class PairedStatistics:
    """Every test of a sweep, with the number each is one of."""

    sweep: str
    version: int
    estimator: str
    test: str
    confidence: float
    family: Family
    comparisons: tuple[CellComparison, ...]
    pooling: Pooling
    dunnett: tuple[DunnettFamily, ...]
    moderation: Moderation
    noise: NoiseFloor
    resolution: Resolution
    best: tuple[BestSet, ...]
    rules: tuple[HeadsRule, ...]
    rates: tuple[RateChoice, ...]
    """Best learning rates, chosen on the seeds that report them: see `bias` and `at_edge`."""
    shape_family: Family
    """Of the U over the lines of the head curve."""
    axis: str | None
    """Of the shapes; None where the sweep's file fixes no analysis."""
    shapes: tuple[LineShape, ...]


@dataclass(frozen=True)
class _Read:
    """A table by its content, in which floats are exact."""

    content: str
    table: AblationTable = field(compare=False)


def paired_statistics(table: AblationTable) -> PairedStatistics:
    """The tests of a sweep from its table. Without an `analysis` there are no shapes.

    Tables read lately are remembered, so that a page that is opened again computes nothing.
    """
    return _statistics(_Read(repr(table), table))


@lru_cache(maxsize=32)
def _statistics(read: _Read) -> PairedStatistics:
    table = read.table
    alpha = alpha_of(table)
    found = compared(table)
    shapes = line_shapes(table, alpha)
    return PairedStatistics(
        sweep=table.sweep,
        version=table.version,
        estimator=table.estimator,
        test=table.test,
        confidence=table.confidence,
        family=found.family,
        comparisons=found.comparisons,
        pooling=found.pooling,
        dunnett=found.dunnett,
        moderation=found.moderation,
        noise=noise_floor(table, found.pooled),
        resolution=resolution_of(table, paired_rows(table), found.family.size, alpha),
        best=best_sets(table),
        rules=heads_rules(table),
        rates=rate_choices(table),
        shape_family=shape_family(table, shapes, alpha),
        axis=table.analysis.get("axis"),
        shapes=shapes,
    )

"""Is it real? The paired statistics of a sweep: each delta within its family, the pooled error, the U."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headcount.api.results.curves import CurveLine, head_curve
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import (
    Estimate,
    HomogeneityCheck,
    PairedDelta,
    PooledError,
    UnpairedDelta,
    UShape,
    check_homogeneity,
    holm,
    loss_table,
    pooled_delta,
    pooled_error,
    u_shape,
    welch_delta,
)

ALPHA = 0.05


@dataclass(frozen=True)
class CellComparison:
    """One treatment against its control."""

    cell: int
    control: int
    settings: dict[str, Any]
    delta: PairedDelta | None
    """With its own error; None where either side diverged."""
    adjusted_p: float | None
    """Of the delta's own p, by the family's method."""
    rejected: bool
    """Whether the family says that the delta is not 0."""
    pooled: Estimate | None
    """The delta with the pooled error; only where the cells are homogeneous."""
    unpaired: UnpairedDelta | None
    """The difference of the means by Welch's t; only where fewer than 2 seeds are paired."""
    note: str


@dataclass(frozen=True)
class Family:
    """The comparisons that are corrected for each other. Those without a p count too."""

    name: str
    method: str
    size: int
    alpha: float


@dataclass(frozen=True)
class Pooling:
    """One error for all cells, and whether it may be used."""

    cells: int
    """Cells without a diverged seed, controls among them."""
    sd: float | None
    df: int | None
    balanced: bool
    """Whether every cell has every seed: a randomised block design, else least squares."""
    homogeneity: HomogeneityCheck | None
    """None under 2 cells. The pooled error is used where its verdict is `homogeneous`, and nowhere else."""


@dataclass(frozen=True)
class LineShape:
    """Whether the losses of one line of the head curve form a U, by ends and middle fixed at submission."""

    settings: dict[str, Any]
    shape: UShape | None
    note: str
    """Why there is no answer; empty where there is one."""


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
    axis: str | None
    """Of the shapes; None where the sweep's file fixes no analysis."""
    shapes: tuple[LineShape, ...]


def paired_statistics(table: AblationTable) -> PairedStatistics:
    """The tests of a sweep from its table. Without an `analysis` there are no shapes."""
    alpha = float(table.analysis.get("alpha") or ALPHA)
    paired = [row for row in table.treatments if row.control is not None]
    name = f"every cell of {table.sweep} against its control"
    family = holm(name, {str(row.cell): row.delta.p if row.delta else None for row in paired}, alpha=alpha)
    rows = [row for row in table.rows if row.losses and not row.seeds_diverged]
    pooled, homogeneity = _pool(rows)
    usable = pooled if homogeneity and homogeneity.verdict == "homogeneous" else None
    place = {row.cell: i for i, row in enumerate(rows)}
    return PairedStatistics(
        sweep=table.sweep,
        version=table.version,
        estimator=table.estimator,
        test=table.test,
        confidence=table.confidence,
        family=Family(family.name, family.method, family.size, family.alpha),
        comparisons=tuple(
            CellComparison(
                cell=row.cell,
                control=row.control,
                settings=row.settings,
                delta=row.delta,
                adjusted_p=family.members[str(row.cell)].adjusted_p,
                rejected=family.members[str(row.cell)].rejected,
                pooled=_pooled_delta(usable, place, row, table.confidence),
                unpaired=_unpaired(row, table),
                note=row.note,
            )
            for row in paired
            if row.control is not None
        ),
        pooling=Pooling(
            cells=len(rows),
            sd=pooled.sd if pooled else None,
            df=pooled.df if pooled else None,
            balanced=pooled.balanced if pooled else False,
            homogeneity=homogeneity,
        ),
        axis=table.analysis.get("axis"),
        shapes=_shapes(table, alpha),
    )


def _pool(rows: list[TableRow]) -> tuple[PooledError | None, HomogeneityCheck | None]:
    if len(rows) < 2:
        return None, None
    losses = loss_table([dict(zip(row.seeds, row.losses, strict=True)) for row in rows]).losses
    return pooled_error(losses), check_homogeneity(losses)


def _pooled_delta(
    pooled: PooledError | None, place: Mapping[int, int], row: TableRow, confidence: float
) -> Estimate | None:
    if pooled is None or row.control is None or row.cell not in place or row.control not in place:
        return None
    return pooled_delta(pooled, place[row.cell], place[row.control], confidence=confidence)


def _unpaired(row: TableRow, table: AblationTable) -> UnpairedDelta | None:
    if row.delta is None or row.control is None or row.delta.n >= 2:
        return None
    control = table.row(row.control)
    if min(len(row.losses), len(control.losses)) < 2:
        return None
    return welch_delta(row.losses, control.losses, confidence=table.confidence)


def _shapes(table: AblationTable, alpha: float) -> tuple[LineShape, ...]:
    axis = table.analysis.get("axis")
    if axis not in table.axes:
        return ()
    curve = head_curve(table, axis)
    return tuple(_shape(table, line, curve.values, alpha) for line in curve.lines)


def _shape(table: AblationTable, line: CurveLine, values: tuple[Any, ...], alpha: float) -> LineShape:
    points = [p if p and not p.seeds_diverged else None for p in line.points]
    cells = [dict(zip(p.seeds, p.losses, strict=True)) if p else {} for p in points]
    losses = loss_table(cells).losses
    analysis = table.analysis
    if not all(isinstance(v, int | float) for v in values):
        return LineShape(line.settings, None, "the values of the axis are not numbers")
    needed = {float(v) for v in (*analysis["ends"], *analysis["middle"])}
    absent = [v for v, cell in zip(values, cells, strict=True) if float(v) in needed and not cell]
    if absent:
        listed = ", ".join(f"{v:g}" for v in absent)
        return LineShape(line.settings, None, f"no losses, or a diverged seed, at {listed}")
    shape = u_shape(
        [float(v) for v in values],
        np.asarray(losses),
        ends=[float(v) for v in analysis["ends"]],
        middle=[float(v) for v in analysis["middle"]],
        flat_margin=analysis.get("flat_margin"),
        alpha=alpha,
    )
    note = "" if shape.p is not None else "needs 2 seeds that have the ends and the middle"
    return LineShape(line.settings, shape, note)

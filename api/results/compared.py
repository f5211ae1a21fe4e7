"""Every treatment of a sweep against its control, with what all cells together tell of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

import numpy as np

from headcount.api.results.comparisons import CellComparison, Shared, compare
from headcount.api.results.families import Family, alpha_of, control_family, paired_rows, screened
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import (
    MODERATED_CELLS,
    Estimate,
    HomogeneityCheck,
    PooledError,
    VarianceComponents,
    check_homogeneity,
    dunnett_deltas,
    loss_table,
    moderated_deltas,
    pair_error,
    pooled_delta,
    pooled_error,
    variance_components,
    wide_cells,
)

STEADY = 0.5
"""The homogeneity check's p above which a moderated error may carry a claim. The check misses many an uneven
spread at 3 seeds: below it, 95 % intervals of a family fail in up to 12 % of the sweeps, above it in 6 %."""


@dataclass(frozen=True)
class DunnettFamily:
    """The treatments of one control, by Dunnett's distribution: homogeneous cells with every seed only."""

    name: str
    control: int
    size: int
    alpha: float
    df: int | None
    critical: float | None
    """The |t| above which a delta is shown."""
    reason: str | None
    """Why Holm's p has to do; None where Dunnett's holds."""


@dataclass(frozen=True)
class Moderation:
    """What the cells' variances have in common."""

    cells: int
    prior_sd: float | None
    prior_df: float | None
    """None where it is infinite, no sign that the cells differ, and under 8 cells."""


@dataclass(frozen=True)
class Pooling:
    """One error for all cells, and whether it may be used."""

    cells: int
    """Cells without a diverged seed, controls among them."""
    sd: float | None
    df: int | None
    balanced: bool
    """Whether every cell has every seed: a randomised block design, else least squares."""
    components: VarianceComponents | None
    """The same design as a mixed model: between seeds and left over, and whether the cells differ at all."""
    homogeneity: HomogeneityCheck | None
    """None under 2 cells. The pooled error is used where its verdict is `homogeneous`, and nowhere else."""


@dataclass(frozen=True)
class Compared:
    """The comparisons of a sweep, and what they rest on."""

    family: Family
    comparisons: tuple[CellComparison, ...]
    pooled: PooledError | None
    pooling: Pooling
    dunnett: tuple[DunnettFamily, ...]
    moderation: Moderation


def compared(table: AblationTable) -> Compared:
    """A comparison a treatment that has a control."""
    paired = paired_rows(table)
    family, members = control_family(table)
    rows = [row for row in table.rows if row.losses and not row.seeds_diverged]
    pooled, components, homogeneity = _pool(rows)
    usable = pooled if homogeneity and homogeneity.verdict == "homogeneous" else None
    place = {row.cell: i for i, row in enumerate(rows)}
    wide = (
        {row.cell for row, is_wide in zip(rows, wide_cells(pooled), strict=True) if is_wide}
        if pooled
        else set()
    )
    dunnett, by_dunnett = _dunnett_families(table, usable is not None, wide, alpha_of(table))
    moderated, moderation = _moderated(table, paired)
    steady = bool(homogeneity and homogeneity.p is not None and homogeneity.p > STEADY)
    screening = screened(table)
    comparisons = tuple(
        compare(
            row,
            table,
            members[row.cell],
            family,
            Shared(
                screened=screening[row.cell],
                pooled=_pooled_delta(usable, place, row, table.confidence),
                moderated=moderated.get(row.cell),
                steady=steady,
                dunnett=by_dunnett.get(row.cell),
                own_spread=_own_spread(pooled, place, row),
                wide=bool({row.cell, row.control} & wide),
            ),
        )
        for row in paired
    )
    pooling = Pooling(
        cells=len(rows),
        sd=pooled.sd if pooled else None,
        df=pooled.df if pooled else None,
        balanced=pooled.balanced if pooled else False,
        components=components,
        homogeneity=homogeneity,
    )
    return Compared(family, comparisons, pooled, pooling, dunnett, moderation)


def _pool(
    rows: list[TableRow],
) -> tuple[PooledError | None, VarianceComponents | None, HomogeneityCheck | None]:
    if len(rows) < 2:
        return None, None, None
    losses = loss_table([dict(zip(row.seeds, row.losses, strict=True)) for row in rows]).losses
    return pooled_error(losses), variance_components(losses), check_homogeneity(losses)


def _pooled_delta(
    pooled: PooledError | None, place: Mapping[int, int], row: TableRow, confidence: float
) -> Estimate | None:
    if pooled is None or row.control is None or row.cell not in place or row.control not in place:
        return None
    return pooled_delta(pooled, place[row.cell], place[row.control], confidence=confidence)


def _own_spread(pooled: PooledError | None, place: Mapping[int, int], row: TableRow) -> float:
    """The larger of the error of the row's deltas and of what its two cells' residuals give; 0 without."""
    own = (row.delta.se if row.delta else None) or 0.0
    if pooled is None or row.control is None or row.cell not in place or row.control not in place:
        return own
    return max(own, pair_error(pooled, place[row.cell], place[row.control]))


def _moderated(table: AblationTable, rows: list[TableRow]) -> tuple[dict[int, Estimate], Moderation]:
    """The moderated delta of each cell, where there are cells enough; none where a rule added the seeds: it
    stops where the first ones happen to spread little, and their variances would all be too small."""
    known = [row for row in rows if row.delta and row.delta.n]
    if len(known) < MODERATED_CELLS or table.first_seeds is not None:
        return {}, Moderation(len(known), None, None)
    by_seed = [dict(zip(r.delta.seeds, r.delta.deltas, strict=True)) for r in known if r.delta]
    found = moderated_deltas(
        loss_table(by_seed).losses, [row.control for row in known], confidence=table.confidence
    )
    if found.prior_sd is None:
        return {}, Moderation(len(known), None, None)
    prior_df = found.prior_df if found.prior_df is not None and isfinite(found.prior_df) else None
    deltas = {row.cell: delta for row, delta in zip(known, found.deltas, strict=True)}
    return deltas, Moderation(len(known), found.prior_sd, prior_df)


def _dunnett_families(
    table: AblationTable, homogeneous: bool, wide: set[int], alpha: float
) -> tuple[tuple[DunnettFamily, ...], dict[int, tuple[Estimate, float]]]:
    """One family a control; cell to its simultaneous estimate and the family's p, where the method holds."""
    families = []
    estimates: dict[int, tuple[Estimate, float]] = {}
    treatments: dict[int | None, list[TableRow]] = {}
    for row in table.treatments:
        treatments.setdefault(row.control, []).append(row)
    for control in table.controls:
        treated = treatments.get(control.cell)
        if not treated:
            continue
        named = f"every cell paired with cell {control.cell}"
        rows = [control, *treated]
        losses = loss_table([dict(zip(r.seeds, r.losses, strict=True)) for r in rows]).losses
        reason = None
        if not homogeneous:
            reason = "the cells are not shown to have one variance"
        elif any(r.cell in wide for r in rows):
            reason = "some cell spreads wider than the others"
        elif any(r.seeds_diverged for r in rows) or np.isnan(losses).any() or losses.shape[1] < 2:
            reason = "some cell lacks a seed, or has one only"
        pooled = pooled_error(losses) if reason is None else None
        if pooled is not None and not pooled.sd:
            reason, pooled = "the losses do not vary beyond cell and seed", None
        if pooled is None:
            families.append(DunnettFamily(named, control.cell, len(treated), alpha, None, None, reason))
            continue
        place = {row.cell: i for i, row in enumerate(rows)}
        own = [_own_spread(pooled, place, row) for row in treated]
        found = dunnett_deltas(pooled, 0, confidence=1 - alpha, least=own)
        families.append(
            DunnettFamily(named, control.cell, len(treated), alpha, pooled.df, found.critical, None)
        )
        for row, delta, p in zip(treated, found.deltas, found.adjusted_p, strict=True):
            estimates[row.cell] = (delta, p)
    return tuple(families), estimates

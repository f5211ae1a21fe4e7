"""One treatment against its control: its delta by every estimator that its data allow."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from headcount.api.results.families import Family
from headcount.api.results.noise import found_difference
from headcount.api.results.tables import AblationTable, TableRow
from headcount.sweeps.statistics import (
    Comparison,
    Estimate,
    PairedDelta,
    SignedRank,
    UnpairedDelta,
    no_narrower,
    outperforming,
    rank_test_floor,
    sign_flip,
    signed_rank,
    simultaneous,
    welch_delta,
)

ErrorSource = Literal["pooled", "moderated", "own_spread", "own"]


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
    bh_p: float | None
    """By Benjamini and Hochberg, for screening: of the cells with at most this, so large a share is expected
    to be false."""
    by_p: float | None
    """By Benjamini and Yekutieli: the same, however the deltas depend on each other."""
    pooled: Estimate | None
    """The delta with the pooled error; only where the cells are homogeneous."""
    unpaired: UnpairedDelta | None
    """The difference of the means by Welch's t; only where fewer than 2 seeds are paired."""
    moderated: Estimate | None
    """The delta with its variance shrunk toward that of all cells; only from 8 cells up."""
    dunnett: Estimate | None
    """With the interval that holds for all cells of one control at once; see `dunnett` of the whole."""
    dunnett_p: float | None
    simultaneous: Estimate | None
    """With an interval for the whole family at once (Bonferroni): it holds for a cell that was picked too."""
    simultaneous_error: ErrorSource | None
    """Whose error that interval rests on: the first of these that there is; `own_spread` where a shared error
    is narrower than the spread of the delta, or of its two cells."""
    sign_flip_p: float | None
    """Exact, assuming only symmetry; it cannot go below `sign_flip_floor`."""
    sign_flip_floor: float | None
    signed_rank: SignedRank | None
    """Wilcoxon's, exact, under the same assumption and with a floor of its own; None where no delta differs
    from 0."""
    outperforming: float | None
    """The share of all pairs of a treatment's and a control's job in which the treatment's loss is lower."""
    smallest_difference: float | None
    """The true delta found with 80 % probability at this cell's error, with the family's correction."""
    note: str


class Shared(NamedTuple):
    """What all cells together tell of one."""

    screened: tuple[float | None, float | None]
    """Its p by Benjamini and Hochberg, and by Benjamini and Yekutieli."""
    pooled: Estimate | None
    moderated: Estimate | None
    steady: bool
    """Whether a moderated error may carry a claim: the spreads show no sign that they differ."""
    dunnett: tuple[Estimate, float] | None
    own_spread: float
    """The delta's error by its own losses alone, which a claim by a shared one does not go below."""
    wide: bool
    """Whether treatment or control spreads wider than the others: then a claim rests on the delta alone."""


def compare(
    row: TableRow,
    table: AblationTable,
    member: Comparison,
    family: Family,
    shared: Shared,
) -> CellComparison:
    """The comparison of a row that has a control, with what all cells together have told of it."""
    assert row.control is not None
    delta, dunnett = row.delta, shared.dunnett
    error, estimate = _best_error(shared, delta)
    return CellComparison(
        cell=row.cell,
        control=row.control,
        settings=row.settings,
        delta=delta,
        adjusted_p=member.adjusted_p,
        rejected=member.rejected,
        bh_p=shared.screened[0],
        by_p=shared.screened[1],
        pooled=shared.pooled,
        unpaired=_unpaired(row, table),
        moderated=shared.moderated,
        dunnett=dunnett[0] if dunnett else None,
        dunnett_p=dunnett[1] if dunnett else None,
        simultaneous=simultaneous(estimate, family.size, confidence=table.confidence) if estimate else None,
        simultaneous_error=error,
        sign_flip_p=sign_flip(delta.deltas) if delta else None,
        sign_flip_floor=rank_test_floor(delta.n) if delta and delta.n else None,
        signed_rank=signed_rank(delta.deltas) if delta else None,
        outperforming=outperforming(row.losses, table.row(row.control).losses) if delta else None,
        smallest_difference=_smallest(row, family.size, family.alpha),
        note=row.note,
    )


def _best_error(shared: Shared, own: Estimate | None) -> tuple[ErrorSource, Estimate] | tuple[None, None]:
    pooled, moderated = shared.pooled, shared.moderated
    if shared.wide and own and own.se:
        return "own", own
    if pooled and pooled.se:
        return _no_narrower("pooled", pooled, shared.own_spread)
    if moderated and moderated.se and shared.steady:
        return _no_narrower("moderated", moderated, shared.own_spread)
    return ("own", own) if own and own.se else (None, None)


def _no_narrower(source: ErrorSource, estimate: Estimate, least: float) -> tuple[ErrorSource, Estimate]:
    wider = no_narrower(estimate, least)
    return (source if wider is estimate else "own_spread"), wider


def _unpaired(row: TableRow, table: AblationTable) -> UnpairedDelta | None:
    if row.delta is None or row.control is None or row.delta.n >= 2:
        return None
    control = table.row(row.control)
    if min(len(row.losses), len(control.losses)) < 2:
        return None
    return welch_delta(row.losses, control.losses, confidence=table.confidence)


def _smallest(row: TableRow, comparisons: int, alpha: float) -> float | None:
    delta = row.delta
    if delta is None or not delta.se or delta.df is None:
        return None
    return found_difference(delta.se, delta.df, comparisons, alpha)

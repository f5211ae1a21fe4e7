"""The ablation table: one row a cell, over all its seeds, with its delta to the control paired by seed."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, sqrt
from types import MappingProxyType
from typing import Any

from sqlalchemy.orm import Session

from headcount.api.results.adaptive import adaptive_of, by_rule
from headcount.api.results.cells import CellState, CellView, cells_of
from headcount.api.results.costs import REPEATS, CellCosts, cell_costs, mixed
from headcount.api.results.lookup import find_sweep
from headcount.api.results.reference import OwnCell, Reference, cell_configs, reference
from headcount.sweeps.statistics import PairedDelta, paired_delta
from headcount.sweeps.statistics.student import mean_and_sd

ESTIMATOR = "tail mean (validation loss over the last quarter of the steps)"
TEST = "paired t (by seed, two-sided)"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class TableRow:
    """One cell. What its seeds do not tell is None, and `note` says why."""

    cell: int
    settings: dict[str, Any]
    is_control: bool
    control: int | None
    """The cell that `delta` is taken to; None for a control."""
    state: CellState
    rank: int | None
    """By the mean among the treatments, 1 is the lowest; diverged cells share the last; None without loss. In
    a search by the seeds that every cell has."""
    n: int
    """Losses that the mean is over."""
    mean: float | None
    sd: float | None
    se: float | None
    seeds: tuple[int, ...]
    losses: tuple[float, ...]
    """The tail mean at each of `seeds`, also where a diverged seed forbids a mean."""
    seeds_missing: tuple[int, ...]
    seeds_diverged: tuple[int, ...]
    seeds_failed: tuple[int, ...]
    delta: PairedDelta | None
    """Treatment minus control, negative is better; None for a control, and where either side diverged."""
    parameters: int | None
    flops: float | None
    """Of one job of the cell, forward and backward."""
    note: str
    """Such as "1 of 3 diverged"; empty where nothing is amiss."""
    flops_per_token: float | None = None
    tokens: int | None = None
    """That one job of the cell trains on; None of a run from elsewhere that does not tell."""
    tokens_per_second: float | None = None
    """Mean over the cell's jobs."""
    timed_jobs: int = 0
    """That this mean is over."""
    peak_memory_bytes: float | None = None
    """The largest of the cell's jobs."""
    mixed_environments: bool = False
    """Whether a pair of `delta` trained on more than one kind of hardware, version, kernel or micro-batch."""
    external: bool = False
    """Trained elsewhere and imported: cannot be trained again here."""
    undecided: bool = False
    """Whether the most seeds that the sweep's rule allows leave the delta's interval wider than it asks."""


@dataclass(frozen=True)
class Repeats:
    """Jobs of the sweep that were trained a second time with the same seed (`headcount replay --keep`)."""

    kind: str
    """`repeat.same`: in the same environment; `repeat.micro_batch`: with another micro-batch."""
    jobs: int
    sd: float
    """Of one training, nats: √(mean squared difference / 2)."""


@dataclass(frozen=True)
class AblationTable:
    """Every cell of a sweep in the order of its plan. Curves, grids and statistics are made from it."""

    sweep: str
    version: int
    """Of the data: raised whenever a table of the sweep may be another."""
    axes: dict[str, tuple[Any, ...]]
    seeds: tuple[int, ...]
    analysis: dict[str, Any]
    estimator: str
    test: str
    confidence: float
    """Of the intervals of the deltas."""
    rows: tuple[TableRow, ...]
    repeats: tuple[Repeats, ...] = ()
    reference: Reference | None = None
    """Published figures of these cells, where asked for."""
    fresh_seeds: tuple[int, ...] = ()
    """Of a search: seeds that chose nothing. Its best cell is reported on them, and none is named before."""
    first_seeds: int | None = None
    """Of a rule that adds seeds by the spread of its first ones: how many those are. Errors rest on them."""

    def row(self, cell: int) -> TableRow:
        """The row of the cell with this id."""
        return self._by_cell[cell]

    @cached_property
    def _by_cell(self) -> dict[int, TableRow]:
        return {row.cell: row for row in self.rows}

    @property
    def external(self) -> bool:
        """Whether some of it was trained elsewhere."""
        return any(r.external for r in self.rows)

    @cached_property
    def treatments(self) -> tuple[TableRow, ...]:
        """The rows that are not controls."""
        return tuple(r for r in self.rows if not r.is_control)

    @cached_property
    def controls(self) -> tuple[TableRow, ...]:
        """The rows that others are paired with."""
        return tuple(r for r in self.rows if r.is_control)


def ablation_table(session: Session, name: str, *, with_reference: bool = False) -> AblationTable:
    """The table of a sweep, over all its seeds, with published figures if asked. Raises `NotFoundError`."""
    sweep = find_sweep(session, name)
    cells = cells_of(session, sweep)
    by_id = {c.id: c for c in cells}
    costs = cell_costs(session, sweep.id, cells)
    ranks = _ranks(cells)
    adaptive = adaptive_of(session, sweep)
    rows = tuple(table_row(cell, by_id, costs, ranks.get(cell.id)) for cell in cells)
    return AblationTable(
        sweep=sweep.name,
        version=sweep.results_version,
        axes={axis: tuple(values) for axis, values in sweep.axes.items()},
        seeds=tuple(sweep.seeds),
        analysis=dict(sweep.analysis),
        estimator=ESTIMATOR,
        test=TEST,
        confidence=CONFIDENCE,
        rows=rows,
        repeats=tuple(_repeats(list(costs.values()))),
        fresh_seeds=tuple(sorted(adaptive.fresh)),
        first_seeds=adaptive.rule.start if adaptive.rule else None,
        reference=reference([_own(row) for row in rows], cell_configs(session, sweep))
        if with_reference
        else None,
    )


def _repeats(costs: Sequence[CellCosts]) -> Iterator[Repeats]:
    for kind in REPEATS:
        told = [cost.repeats[kind] for cost in costs if kind in cost.repeats]
        if jobs := sum(n for n, _ in told):
            yield Repeats(kind, jobs, sqrt(fsum(squares for _, squares in told) / (2 * jobs)))


def _own(row: TableRow) -> OwnCell:
    delta = row.delta
    shown = bool(delta and delta.low is not None and delta.high is not None and delta.low * delta.high > 0)
    return OwnCell(row.cell, row.is_control, row.mean, delta.mean if delta else None, shown)


def table_row(
    cell: CellView,
    cells: Mapping[int, CellView],
    costs: Mapping[int, CellCosts] = MappingProxyType({}),
    rank: int | None = None,
) -> TableRow:
    """The row of one cell; `cells` has its control, by its id. It knows its rank only if told."""
    losses = cell.losses
    diverged, failed = cell.seeds_in("diverged"), cell.seeds_in("failed")
    mean, sd, se = _spread([] if diverged else list(losses.values()))
    control = None if cell.is_control or cell.control_id is None else cells.get(cell.control_id)
    delta = None
    notes = [f"{len(diverged)} of {len(cell.results)} diverged"] if diverged else []
    if failed:
        notes.append(f"{len(failed)} of {len(cell.results)} failed")
    if control and not diverged:
        lost = control.seeds_in("diverged")
        if lost:
            notes.append(f"no delta: {len(lost)} of {len(control.results)} of the control diverged")
        else:
            delta = paired_delta(losses, control.losses, confidence=CONFIDENCE)
    undecided = None
    if delta and cell.seed_rule:
        delta, undecided = by_rule(delta, cell.seed_rule)
    notes += _adaptive_notes(cell, undecided)
    cost = costs.get(cell.id, CellCosts())
    return TableRow(
        cell=cell.id,
        settings=cell.settings,
        is_control=cell.is_control,
        control=control.id if control else None,
        state=cell.state,
        rank=rank,
        n=0 if diverged else len(losses),
        mean=mean,
        sd=sd,
        se=se,
        seeds=tuple(losses),
        losses=tuple(losses.values()),
        seeds_missing=cell.seeds_missing,
        seeds_diverged=diverged,
        seeds_failed=failed,
        delta=delta,
        parameters=cell.parameters,
        flops=cell.flops,
        note="; ".join(notes),
        flops_per_token=cost.flops_per_token,
        tokens=cost.tokens,
        tokens_per_second=cost.tokens_per_second,
        timed_jobs=cost.timed_jobs,
        peak_memory_bytes=cost.peak_memory_bytes,
        mixed_environments=bool(delta and control and mixed(cost, costs.get(control.id), delta.seeds)),
        external=cell.external,
        undecided=undecided is not None,
    )


def _spread(losses: list[float]) -> tuple[float | None, float | None, float | None]:
    """Mean, sd and se, as `mean_estimate` has them beside an interval and a test that no row tells."""
    if len(losses) < 2:
        return (losses[0] if losses else None), None, None
    mean, sd = mean_and_sd(losses)
    return mean, sd, sd / len(losses) ** 0.5


def _adaptive_notes(cell: CellView, undecided: str | None) -> Iterator[str]:
    if cell.fresh_seeds:
        yield "best of the search, on fresh seeds"
    if cell.pruned_step is not None:
        yield f"pruned at step {cell.pruned_step}"
    if undecided:
        yield undecided


def _ranks(cells: Sequence[CellView]) -> dict[int, int]:
    """Cell to its place among the treatments; equal means share a place."""
    treatments = [cell for cell in cells if not cell.is_control]
    means = {
        cell.id: fsum(cell.common_losses.values()) / len(cell.common_losses)
        for cell in treatments
        if cell.common_losses and cell.state != "diverged"
    }
    ascending = sorted(means.values())
    ranks = {cell: 1 + bisect_left(ascending, mean) for cell, mean in means.items()}
    last = len(means) + 1
    return ranks | {cell.id: last for cell in treatments if cell.state == "diverged"}

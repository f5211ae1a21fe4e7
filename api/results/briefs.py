"""What the list of sweeps says of one sweep's results: its lowest cell, and the curve through it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from headcount.api.results.adaptive import adaptive_of
from headcount.api.results.cells import CellView, cells_of
from headcount.api.results.curves import main_axis
from headcount.api.results.lookup import find_sweep
from headcount.api.results.tables import TableRow, table_row
from headcount.sweeps.statistics import mean_estimate


@dataclass(frozen=True)
class SweepBrief:
    """The lowest cell, as `best_cell` has it, and the cells that differ from it in one axis alone."""

    best: TableRow
    axis: str | None
    """Across: None for a sweep without axes, which has no line."""
    measure: Literal["delta", "loss"]
    """Of the line: the delta where the lowest cell has one."""
    line: tuple[tuple[Any, float | None], ...]
    """Value of the axis and mean, in the order of the axis; None where a cell has none."""


def sweep_brief(session: Session, name: str) -> SweepBrief | None:
    """The brief of a sweep, from the few cells that it shows. None without a mean loss of a treatment.

    Raises `NotFoundError`.
    """
    sweep = find_sweep(session, name)
    cells = {cell.id: cell for cell in cells_of(session, sweep)}
    lowest = _lowest(list(cells.values()), adaptive_of(session, sweep).fresh)
    if lowest is None:
        return None
    best = table_row(lowest, cells)
    measure: Literal["delta", "loss"] = "delta" if best.delta and best.delta.mean is not None else "loss"
    axis = main_axis([axis for axis in sweep.axes if axis in lowest.settings], sweep.analysis)
    line = []
    for cell in cells.values():
        if axis is not None and _is_on_line(cell, lowest, axis):
            row = table_row(cell, cells)
            mean = row.mean if measure == "loss" else row.delta.mean if row.delta else None
            line.append((cell.settings[axis], mean))
    values = list(sweep.axes[axis]) if axis is not None else []
    line.sort(key=lambda point: values.index(point[0]) if point[0] in values else len(values))
    return SweepBrief(best, axis, measure, tuple(line))


def _lowest(cells: Sequence[CellView], fresh_seeds: Collection[int]) -> CellView | None:
    """The treatment with the lowest mean among those with the most seeds; of a search the one it chose."""
    treatments = [
        cell
        for cell in cells
        if not cell.is_control and not cell.seeds_in("diverged") and (cell.fresh_seeds or not fresh_seeds)
    ]
    means = [(mean_estimate(list(cell.losses.values())), cell) for cell in treatments]
    most = max((found.n for found, _ in means), default=0)
    known = [
        (found.mean, cell.id, cell) for found, cell in means if found.mean is not None and found.n == most
    ]
    return min(known, key=lambda one: one[:2])[2] if known else None


def _is_on_line(cell: CellView, lowest: CellView, axis: str) -> bool:
    others = {name: value for name, value in cell.settings.items() if name != axis}
    return (
        not cell.is_control
        and axis in cell.settings
        and others == {name: value for name, value in lowest.settings.items() if name != axis}
    )

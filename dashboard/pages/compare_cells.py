"""Cells beside each other, of one sweep or several: their curves, and what separates each from the first."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError, QueryError, TableRow
from headcount.api.results.cell_curves import CellCurve, cell_curves, delta_curve
from headcount.api.results.compare import (
    ComparedCell,
    compared_sweep,
    differences,
    differing_fields,
)
from headcount.dashboard import text
from headcount.dashboard.figures import cell_curves as steps
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.pages.compare import Asked, ComparePage, Side, at_most, without
from headcount.dashboard.panel import Figure
from headcount.orchestrator.store.models import Cell, Sweep
from headcount.trainer.errors import nearest

MOST_CELLS = 8
MOST_OTHERS = 1000
"""Cells that the page offers to add."""


def cells_page(session: Session, asked: Asked) -> ComparePage:
    """The page of the cells that are asked for. Raises `NotFoundError`, and `QueryError` for too many."""
    at_most(MOST_CELLS, asked.cells, "cells")
    for name in asked.axes:
        raise QueryError(f"this page knows no {name!r}; {nearest(name, ('cell', 'y'))}")
    names = [_sweep_of(session, cell) for cell in asked.cells]
    sweeps = {name: compared_sweep(session, name) for name in dict.fromkeys(names)}
    rows = [sweeps[name].table.row(int(cell)) for name, cell in zip(names, asked.cells, strict=True)]
    measure: Measure = "delta" if asked.y == "delta" else "loss"
    several = len(sweeps) > 1

    def label(name: str, row: TableRow) -> str:
        cell = text.cell_name(row.settings, row.is_control)
        return f"{name[:40]}: {cell}" if several else cell

    labels = [label(name, row) for name, row in zip(names, rows, strict=True)]
    configs = [sweeps[name].configs.get(row.cell, {}) for name, row in zip(names, rows, strict=True)]
    state = [*(("cell", cell) for cell in asked.cells), ("y", measure)]
    others = [
        (str(row.cell), label(name, row))
        for name, one in sweeps.items()
        for row in one.table.rows
        if row not in rows
    ]
    return ComparePage(
        kind="cell",
        sides=tuple(
            Side(label, name, without(state, ("cell", cell)))
            for label, name, cell in zip(labels, names, asked.cells, strict=True)
        ),
        others=tuple(others[:MOST_OTHERS]),
        measure=measure,
        filters=(),
        figures=(_steps(_curves(session, names, rows), rows, labels, measure),),
        cells=(ComparedCell({}, False, tuple(rows), differences(rows)),),
        found=1,
        fields=differing_fields(configs),
        state=tuple(state),
    )


def _sweep_of(session: Session, cell: str) -> str:
    number = int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 10 else 0
    query = select(Sweep.name).join(Cell, Cell.sweep_id == Sweep.id).where(Cell.id == number)
    name = session.scalar(query)
    if name is None:
        raise NotFoundError(f"no cell has the id {cell!r}; the table of a sweep in JSON has them")
    return name


def _curves(session: Session, names: Sequence[str], rows: Sequence[TableRow]) -> dict[int, CellCurve]:
    found: dict[int, CellCurve] = {}
    for name in dict.fromkeys(names):
        wanted = [row.cell for row, of in zip(rows, names, strict=True) if of == name]
        found |= cell_curves(session, name, wanted)
    return found


def _steps(
    found: Mapping[int, CellCurve], rows: Sequence[TableRow], labels: Sequence[str], measure: Measure
) -> Figure:
    """The cells by step: their losses, or their differences to the first of them."""
    lines: list[steps.NamedCurve] = []
    absent: list[text.Absent] = []
    first = found.get(rows[0].cell)
    for row, label in zip(rows, labels, strict=True):
        curve = found.get(row.cell)
        if measure == "delta":
            if row is rows[0]:
                continue
            curve = delta_curve(curve, first) if curve and first else None
        if curve and curve.steps:
            lines.append(steps.NamedCurve(label, curve, row.is_control))
        else:
            absent.append(text.Absent(label, "nothing to draw yet"))
    data = steps.CellCurvesData(measure, lines)
    what = f"Difference to {labels[0]}" if measure == "delta" else "Validation loss"
    drawn = steps.cell_curves_figure(data)
    summary = steps.cell_curves_summary(data)
    if measure == "delta":
        drawn["layout"]["yaxis"]["title"]["text"] = "Difference to the first, nats"
        summary = summary.replace("Delta to control", what, 1)
    parts = [
        f"n up to {max(len(row.seeds) for row in rows)}",
        "Thick: mean over the seeds, where all have come to the step; thin: one seed each; no smoothing"
        + steps.runs_out(data),
        *([text.not_drawn(absent)] if absent else []),
    ]
    return Figure(
        id=f"steps-{measure}",
        title=f"{what} by step",
        drawn=drawn,
        summary=summary,
        caption=". ".join(parts) + ".",
        table=steps.cell_curves_table(data),
    )

"""Sweeps side by side: the U of each on one scale, and every setting with what separates them."""

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import QueryError, head_curve, paired_statistics
from headcount.api.results.compare import ComparedSweep, compare_sweeps, compared_sweep
from headcount.dashboard import text
from headcount.dashboard.choice import Choice, choose
from headcount.dashboard.figures.bars import Measure
from headcount.dashboard.pages.compare import (
    MOST_LINES,
    Asked,
    ComparePage,
    Side,
    Values,
    at_most,
    without,
)
from headcount.dashboard.pages.compare_scale import on_one_scale
from headcount.dashboard.panel import Figure
from headcount.dashboard.tabs import FIGURES, View
from headcount.orchestrator.store.models import Sweep
from headcount.trainer.errors import nearest

MOST_SWEEPS = 4
MOST_OTHERS = 500
"""Sweeps that the page offers to add, the newest."""

BEST = "best"
"""The value of an axis at which each sweep has its lowest cell."""


def sweeps_page(session: Session, asked: Asked) -> ComparePage:
    """The page of the sweeps that are asked for; of none or one, with those that can be added.

    Raises `NotFoundError`, and `QueryError` for a value that no sweep has.
    """
    names = asked.sweeps
    at_most(MOST_SWEEPS, names, "sweeps")
    sweeps = [compared_sweep(session, name) for name in names]
    measure: Measure = "loss" if asked.y == "loss" else "delta"
    filters = _filters(sweeps, asked.axes)
    chosen = {f.axis: f.chosen for f in filters if f.chosen != BEST}
    figures = [_curve(session, one, i, measure, chosen) for i, one in enumerate(sweeps)]
    found = compare_sweeps(sweeps)
    shown = [
        cell
        for cell in found.cells
        if all(
            axis not in cell.settings or text.setting(cell.settings[axis]) == value
            for axis, value in chosen.items()
        )
    ]
    state = [*(("sweep", name) for name in names), ("y", measure), *((f.axis, f.chosen) for f in filters)]
    all_names = session.scalars(
        select(Sweep.name).order_by(Sweep.created.desc(), Sweep.id.desc()).limit(MOST_OTHERS)
    )
    return ComparePage(
        kind="sweep",
        sides=tuple(Side(name, name, without(state, ("sweep", name))) for name in names),
        others=tuple((name, name[:80]) for name in all_names if name not in names),
        measure=measure,
        filters=filters,
        figures=tuple(on_one_scale([figure for figure in figures if figure])),
        cells=tuple(shown[:MOST_LINES]),
        found=len(shown),
        fields=found.fields,
        state=tuple(state),
    )


def _choice(sweep: ComparedSweep, measure: Measure, chosen: dict[str, str]) -> Choice | None:
    """What one sweep shows: at the chosen values where it has the axis, else where its lowest cell lies.

    None where it lacks a chosen value.
    """
    table = sweep.table
    curve = head_curve(table) if table.axes else None
    can = any(row.control is not None for row in table.treatments)
    y = {"y": measure if can else "loss"}
    free = choose(table, curve, y)
    own = {f.axis: chosen[f.axis] for f in free.filters if f.axis in chosen}
    if any(value not in f.values for f in free.filters for axis, value in own.items() if axis == f.axis):
        return None
    return choose(table, curve, y | own)


def _filters(sweeps: Sequence[ComparedSweep], asked: dict[str, str]) -> tuple[Values, ...]:
    values: dict[str, list[str]] = {}
    for one in sweeps:
        found = _choice(one, "loss", {})
        for f in found.filters if found else ():
            known = values.setdefault(f.axis, [BEST])
            known += [value for value in f.values if value not in known]
    for name, value in asked.items():
        if name not in values:
            raise QueryError(f"this page knows no {name!r}; {nearest(name, ('sweep', 'cell', 'y', *values))}")
        if value not in values[name]:
            raise QueryError(f"{name} has no value {value!r}; {nearest(value, values[name])}")
    return tuple(Values(axis, tuple(known), asked.get(axis, BEST)) for axis, known in values.items())


def _curve(
    session: Session, sweep: ComparedSweep, place: int, measure: Measure, chosen: dict[str, str]
) -> Figure | None:
    """The U of one sweep; None without axes, and where it lacks a chosen value."""
    table, choice = sweep.table, _choice(sweep, measure, chosen)
    if choice is None or not table.axes:
        return None
    view = View(
        session, table, paired_statistics(table), head_curve(table), choice, choice.measure, lambda key: None
    )
    figure = FIGURES["heads"](view)[0]
    return replace(figure, id=f"curve-{place}", title=f"{table.sweep[:80]}: {figure.title}")

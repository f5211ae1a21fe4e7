"""What the list of sweeps says is what the whole table says."""

import pytest
from builders import CONTROL, build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError, ablation_table, best_cell, sweep_brief
from headcount.orchestrator.store.models import Cell, Sweep


def test_the_lowest_cell_and_its_line_are_those_of_the_table(session: Session) -> None:
    build_sweep(session, "two-rates", rates=(5e-4, 1e-3), states={(8, 4, 1e-3, 1): "diverged"})
    table = ablation_table(session, "two-rates")
    brief = sweep_brief(session, "two-rates")
    assert brief is not None
    best = best_cell(table.treatments)
    assert best == brief.best.cell
    whole = table.row(brief.best.cell)
    assert (brief.best.mean, brief.best.delta, brief.best.settings) == (
        whole.mean,
        whole.delta,
        whole.settings,
    )
    others = ("model.kv_heads", "train.peak_lr")
    expected = [
        (row.settings["model.routing_heads"], row.delta and row.delta.mean)
        for row in table.treatments
        if all(row.settings[axis] == whole.settings[axis] for axis in others)
    ]
    assert (brief.axis, brief.measure) == ("model.routing_heads", "delta")
    assert list(brief.line) == sorted(expected)
    assert len(expected) == 5


def test_without_controls_it_is_the_loss(session: Session) -> None:
    sweep = build_sweep(session, "bare", kv_heads=(1,), curves=False)
    for cell in session.scalars(select(Cell).where(Cell.sweep_id == sweep)):
        cell.control_id = None
    session.flush()
    brief = sweep_brief(session, "bare")
    assert brief is not None
    assert (brief.measure, brief.best.delta) == ("loss", None)
    assert min(mean for _, mean in brief.line if mean is not None) == brief.best.mean


def test_before_a_result_there_is_none(session: Session) -> None:
    waiting = {(h, 1, 1e-3, 0): "queued" for h in (CONTROL, 1, 2)}
    build_sweep(session, "waiting", heads=(1, 2), kv_heads=(1,), seeds=(0,), states=waiting)
    assert sweep_brief(session, "waiting") is None
    with pytest.raises(NotFoundError, match="did you mean 'waiting'"):
        sweep_brief(session, "waitin")


def test_without_axes_there_is_no_line(session: Session) -> None:
    sweep = session.get_one(Sweep, build_sweep(session, "one", heads=(1, 2), kv_heads=(1,), curves=False))
    sweep.axes = {}
    for cell in session.scalars(select(Cell).where(Cell.sweep_id == sweep.id)):
        cell.settings = {}
    session.flush()
    brief = sweep_brief(session, "one")
    assert brief is not None
    assert (brief.axis, brief.line) == (None, ())

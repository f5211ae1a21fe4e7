"""Cells of several sweeps beside each other."""

from collections.abc import Sequence

import pytest
from builders import build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.compare import compare_sweeps, compared_sweep, differences
from headcount.orchestrator.store.models import Cell, Job, Sweep, SweepJob
from headcount.sweeps.statistics import PairedDelta, UnpairedDelta, paired_delta, welch_delta


def _jobs(session: Session, sweep: int) -> Sequence[Job]:
    query = select(Job).join(SweepJob, SweepJob.job_id == Job.id).where(SweepJob.sweep_id == sweep)
    return session.scalars(query).all()


def test_equal_settings_stand_side_by_side_with_what_separates_them(session: Session) -> None:
    build_sweep(session, "a", heads=(1, 4), kv_heads=(1, 2), curves=False)
    other = build_sweep(
        session, "b", heads=(4, 8), kv_heads=(2,), rates=(7e-4, 1e-3), seeds=(11, 12, 13), curves=False
    )
    for job in _jobs(session, other):
        job.seed -= 10
    sides = [compared_sweep(session, name) for name in ("a", "b")]
    cells = compare_sweeps(sides).cells
    shared = [cell for cell in cells if all(cell.rows)]
    assert [(cell.is_control, cell.settings) for cell in shared] == [
        (True, {"model.kv_heads": 2, "train.peak_lr": 1e-3}),
        (False, {"model.routing_heads": 4, "model.kv_heads": 2, "train.peak_lr": 1e-3}),
    ]
    assert len(cells) == len(sides[0].table.rows) + len(sides[1].table.rows) - 2
    first, second = shared[1].rows
    assert first
    assert second
    none, found = shared[1].differences
    assert none is None
    assert isinstance(found, PairedDelta)
    assert found == paired_delta(
        dict(zip(second.seeds, second.losses, strict=True)), dict(zip(first.seeds, first.losses, strict=True))
    )
    assert found.seeds == (1, 2)


def test_without_a_common_seed_the_difference_is_unpaired(session: Session) -> None:
    build_sweep(session, "a", heads=(1, 2), kv_heads=(1,), curves=False)
    build_sweep(session, "b", heads=(1, 2), kv_heads=(1,), rates=(2e-3,), seeds=(7, 8), curves=False)
    rows = [compared_sweep(session, name).table.treatments[0] for name in ("a", "b")]
    _, found = differences(rows)
    assert isinstance(found, UnpairedDelta)
    assert found == welch_delta(rows[1].losses, rows[0].losses)
    assert found.mean == pytest.approx((rows[1].mean or 0) - (rows[0].mean or 0))


def test_one_common_seed_is_no_pair_to_measure_an_error_by(session: Session) -> None:
    build_sweep(session, "a", heads=(1, 2), kv_heads=(1,), curves=False)
    build_sweep(session, "b", heads=(1, 2), kv_heads=(1,), rates=(2e-3,), seeds=(2, 7), curves=False)
    build_sweep(session, "c", heads=(1, 2), kv_heads=(1,), rates=(3e-3,), seeds=(2,), curves=False)
    rows = [compared_sweep(session, name).table.treatments[0] for name in ("a", "b", "c")]
    _, unpaired, alone = differences(rows)
    assert unpaired == welch_delta(rows[1].losses, rows[0].losses)
    assert isinstance(alone, PairedDelta)
    assert (alone.seeds, alone.low) == ((2,), None)


def test_an_axis_of_one_is_a_field_of_the_other(session: Session) -> None:
    """One varies the KV heads, the other has them fixed in its file."""
    build_sweep(session, "a", heads=(1, 4), kv_heads=(1, 2), curves=False)
    fixed = build_sweep(session, "b", heads=(1, 4), kv_heads=(2,), seeds=(5, 6), curves=False)
    sweep = session.get_one(Sweep, fixed)
    sweep.axes = {name: values for name, values in sweep.axes.items() if name != "model.kv_heads"}
    for cell in session.scalars(select(Cell).where(Cell.sweep_id == fixed)):
        cell.settings = {name: value for name, value in cell.settings.items() if name != "model.kv_heads"}
    session.flush()
    cells = compare_sweeps([compared_sweep(session, name) for name in ("a", "b")]).cells
    assert [cell.settings["model.kv_heads"] for cell in cells if all(cell.rows)] == [2, 2, 2]
    assert sum(cell.is_control for cell in cells) == 2


def test_fields_that_differ_are_named_beside_the_axes(session: Session) -> None:
    build_sweep(session, "a", heads=(1, 4), kv_heads=(1,), curves=False)
    other = build_sweep(session, "b", heads=(1, 4), kv_heads=(1,), seeds=(5,), curves=False)
    for job in _jobs(session, other):
        job.config = job.config | {"train.warmup": 7, "seed": 5}
    session.flush()
    fields = compare_sweeps([compared_sweep(session, name) for name in ("a", "b")]).fields
    assert [(one.field, one.values[1]) for one in fields] == [("train.warmup", 7)]


def test_a_diverged_cell_has_no_difference(session: Session) -> None:
    build_sweep(session, "a", heads=(1, 2), kv_heads=(1,), states={(1, 1, 1e-3, 0): "diverged"}, curves=False)
    treatments = compared_sweep(session, "a").table.treatments
    assert differences([treatments[1], treatments[0], None]) == (None, None, None)

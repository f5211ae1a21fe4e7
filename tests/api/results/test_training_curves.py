"""Binned training losses against a plain reading of the stored progress, on both engines."""

import numpy as np
import pytest
from builders import build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError, ablation_table, training_curves
from headcount.api.results.training_curves import training_curves as curves_of
from headcount.orchestrator.store.models import Job, Progress, SweepJob


def test_each_step_alone_where_there_are_few(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0, 1))
    cell = ablation_table(session, "head-count").treatments[0].cell
    (curve,) = curves_of(session, "head-count", [cell]).values()
    told: dict[int, dict[int, float | None]] = {}
    query = select(Job.seed, Progress.step, Progress.loss).join(Progress, Progress.job_id == Job.id)
    for seed, step, loss in session.execute(
        query.join(SweepJob, SweepJob.job_id == Job.id).where(SweepJob.cell_id == cell)
    ):
        told.setdefault(seed, {})[step] = loss
    assert (curve.cell, curve.seeds, len(curve.steps)) == (cell, (0, 1), 40)
    for seed, losses in zip(curve.seeds, curve.losses, strict=True):
        assert losses == pytest.approx([told[seed][step] for step in sorted(told[seed])])
    assert curve.mean == pytest.approx(np.mean(np.array(curve.losses), axis=0))


def test_many_steps_are_binned(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_curves, "BINS", 4)
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0,))
    cell = ablation_table(session, "head-count").treatments[0].cell
    (curve,) = curves_of(session, "head-count", [cell]).values()
    losses = session.scalars(
        select(Progress.loss)
        .join(SweepJob, SweepJob.job_id == Progress.job_id)
        .where(SweepJob.cell_id == cell)
        .order_by(Progress.step)
    ).all()
    # bins of 101 steps over 10, 20, …, 400
    parts = [losses[:10], losses[10:20], losses[20:30], losses[30:]]
    assert curve.steps == (50, 151, 252, 353)
    assert curve.losses[0] == pytest.approx([np.mean(part) for part in parts])  # type: ignore[arg-type]


def test_what_has_told_nothing_is_left_out(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0,), curves=False)
    cell = ablation_table(session, "head-count").treatments[0].cell
    assert curves_of(session, "head-count", [cell]) == {}
    with pytest.raises(NotFoundError):
        curves_of(session, "head-cont", [cell])

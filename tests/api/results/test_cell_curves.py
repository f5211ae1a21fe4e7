"""The curves of cells against a plain reading of the stored evaluations."""

import numpy as np
import pytest
from builders import build_sweep
from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError, ablation_table
from headcount.api.results.cell_curves import cell_curves, delta_curve
from headcount.orchestrator.store.models import Evaluation, Job, SweepJob


def jobs_of(cell: int) -> Select[tuple[Job]]:
    return select(Job).join(SweepJob, SweepJob.job_id == Job.id).where(SweepJob.cell_id == cell)


def stored(session: Session, cell: int) -> dict[int, dict[int, float]]:
    """Seed to step to loss."""
    found: dict[int, dict[int, float]] = {}
    for job in session.scalars(
        select(Job).join(SweepJob, SweepJob.job_id == Job.id).where(SweepJob.cell_id == cell)
    ):
        rows = session.scalars(select(Evaluation).where(Evaluation.job_id == job.id))
        found[job.seed] = {row.step: row.loss for row in rows}
    return found


def test_every_seed_and_their_mean(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,))
    table = ablation_table(session, "head-count")
    for row in table.rows:
        curve = cell_curves(session, "head-count", [row.cell])[row.cell]
        losses = stored(session, row.cell)
        assert curve.seeds == tuple(sorted(losses))
        assert curve.losses == tuple(tuple(losses[s][step] for step in curve.steps) for s in curve.seeds)
        assert curve.mean == pytest.approx(tuple(np.mean(curve.losses, axis=0)))
        assert curve.steps == tuple(sorted(losses[0]))


def test_a_step_that_a_seed_has_not_come_to_has_no_mean(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,))
    (row, *_) = ablation_table(session, "head-count").treatments
    job = session.scalars(
        select(Job)
        .join(SweepJob, SweepJob.job_id == Job.id)
        .where(SweepJob.cell_id == row.cell, Job.seed == 1)
    ).one()
    last = session.scalars(select(Evaluation).where(Evaluation.job_id == job.id)).all()[-1]
    session.delete(last)
    session.flush()
    curve = cell_curves(session, "head-count", [row.cell])[row.cell]
    assert curve.losses[1][-1] is None
    assert curve.mean[-1] is None
    assert None not in curve.mean[:-1]


def test_a_delta_is_of_the_seeds_and_steps_that_both_have(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), missing=[(2, 1, 1e-3, 1)])
    table = ablation_table(session, "head-count")
    row = next(r for r in table.treatments if r.settings["model.routing_heads"] == 2)
    assert row.control is not None
    found = cell_curves(session, "head-count", [row.cell, row.control])
    delta = delta_curve(found[row.cell], found[row.control])
    assert delta.seeds == (0, 2)
    ours, theirs = stored(session, row.cell), stored(session, row.control)
    for seed, losses in zip(delta.seeds, delta.losses, strict=True):
        assert losses == tuple(ours[seed][step] - theirs[seed][step] for step in delta.steps)


def test_cells_without_an_evaluation_and_sweeps_that_are_not_there(session: Session) -> None:
    build_sweep(session, curves=False)
    (row, *_) = ablation_table(session, "head-count").rows
    assert cell_curves(session, "head-count", [row.cell]) == {}
    with pytest.raises(NotFoundError):
        cell_curves(session, "nothing", [row.cell])

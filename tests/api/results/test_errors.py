"""The errors inside jobs, of one job and by cell, against the functions over the rows that were written."""

import numpy as np
import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError, ablation_table, job_errors, measured_table
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Evaluation, Job, SweepJob
from headcount.sweeps.statistics import tail_error, window_error

TAIL = 11
WINDOWS = 8


@pytest.fixture
def windows(session: Session) -> dict[tuple[str, int], list[float]]:
    """A sweep whose tails keep their losses by window; these by job and step."""
    build_sweep(session, heads=(1, 8), kv_heads=(1,), states={(1, 1, 1e-3, 2): "running"})
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 0.2, WINDOWS)
    kept = {}
    for row in session.scalars(select(Evaluation).where(Evaluation.step >= 300)):
        row.window_losses = (row.loss + shared + rng.normal(0, 0.01, WINDOWS)).tolist()
        kept[row.job_id, row.step] = row.window_losses
    session.flush()
    return kept


def _losses(session: Session, job: str) -> list[float]:
    query = select(Evaluation.loss).where(Evaluation.job_id == job).order_by(Evaluation.step)
    return [loss for loss in session.scalars(query) if loss is not None][-TAIL:]


def test_a_job_tells_its_errors_and_those_of_its_delta(
    session: Session, windows: dict[tuple[str, int], list[float]]
) -> None:
    wish = session.scalars(select(SweepJob).where(SweepJob.control_job_id.is_not(None))).first()
    assert wish is not None
    found = job_errors(session, wish.job_id)
    steps = range(300, 401, 10)
    own = np.array([windows[wish.job_id, step] for step in steps])
    theirs = np.array([windows[wish.control_job_id or "", step] for step in steps])
    assert (found.evaluations, found.control_id) == (TAIL, wish.control_job_id)
    assert found.steps == tail_error(_losses(session, wish.job_id))
    assert found.windows is not None
    assert found.delta_windows is not None
    assert found.windows.se == pytest.approx(own.mean(0).std(ddof=1) / WINDOWS**0.5)
    assert found.delta_windows.se == pytest.approx((own - theirs).mean(0).std(ddof=1) / WINDOWS**0.5)
    assert found.delta_windows.se < found.windows.se / 10


def test_errors_by_cell_are_root_mean_squares_over_its_finished_jobs(
    session: Session, windows: dict[tuple[str, int], list[float]]
) -> None:
    table = ablation_table(session, "head-count")
    found = measured_table(session, "head-count", "errors")
    assert [r["cell"] for r in found.rows] == [row.cell for row in table.rows]
    for record, row in zip(found.rows, table.rows, strict=True):
        jobs = session.execute(
            select(Job.id, SweepJob.control_job_id)
            .join(SweepJob, SweepJob.job_id == Job.id)
            .where(SweepJob.cell_id == row.cell, Job.state == "finished")
        ).all()
        assert len(jobs) == (2 if record["model.routing_heads"] == 1 else 3)
        inside = [tail_error(_losses(session, job)) for job, _ in jobs]
        assert record["step_se"] == pytest.approx(np.sqrt(np.mean([e.se**2 for e in inside])))
        assert record["step_autocorrelation"] == pytest.approx(np.mean([e.autocorrelation for e in inside]))
        over = [window_error([windows[job, 400]]).se or 0 for job, _ in jobs]
        assert record["window_se"] == pytest.approx(np.sqrt(np.mean(np.square(over))))
        assert (record["seed_sd"], record["n"]) == (row.sd, row.n)
        assert (record["delta_window_se"] is None) == row.is_control


def test_what_is_not_finite_counts_in_no_error(
    session: Session, windows: dict[tuple[str, int], list[float]]
) -> None:
    row = ablation_table(session, "head-count").treatments[-1]
    cell = row.cell
    gap, hole, short = session.scalars(select(SweepJob).where(SweepJob.cell_id == cell)).all()
    assert (row.state, gap.control_job_id is not None) == ("done", True)
    session.get_one(Evaluation, (gap.job_id, 350)).loss = None
    holed = windows[hole.job_id, 400]
    session.get_one(Evaluation, (hole.job_id, 400)).window_losses = [None, *holed[1:]]
    session.get_one(Evaluation, (short.job_id, 400)).window_losses = windows[short.job_id, 400][1:]
    session.flush()
    (record,) = (r for r in measured_table(session, "head-count", "errors").rows if r["cell"] == cell)

    tails = [_losses(session, wish.job_id)[-10 if wish is gap else -TAIL :] for wish in (gap, hole, short)]
    assert record["step_se"] == pytest.approx(np.sqrt(np.mean([tail_error(tail).se ** 2 for tail in tails])))
    whole = [windows[gap.job_id, 400], windows[short.job_id, 400][1:]]
    over = [window_error([losses]).se or 0 for losses in whole]
    assert record["window_se"] == pytest.approx(np.sqrt(np.mean(np.square(over))))
    theirs = windows[gap.control_job_id or "", 400]
    delta = np.subtract(
        windows[gap.job_id, 400], theirs
    ).tolist()  # the others' windows are not their controls'
    assert record["delta_window_se"] == pytest.approx(window_error([delta]).se)


def test_a_job_that_reports_over_another_tail_is_judged_by_that(session: Session) -> None:
    build_sweep(session, heads=(8,), kv_heads=(1,), seeds=(0,))
    session.execute(update(Job).values(tail=6))
    job = session.scalars(select(Job.id)).first() or ""
    found = job_errors(session, job)
    assert (found.evaluations, found.windows) == (6, None)
    assert found.steps == tail_error(_losses(session, job)[-6:])
    (record, *_) = measured_table(session, "head-count", "errors").rows
    cell = session.scalar(select(SweepJob.job_id).where(SweepJob.cell_id == record["cell"])) or ""
    assert record["step_se"] == pytest.approx(tail_error(_losses(session, cell)[-6:]).se)


def test_over_rest(store: Store, client: TestClient) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 8), kv_heads=(1,), states={(1, 1, 1e-3, 0): "running"})
        states = dict(session.execute(select(Job.state, Job.id)).all())
    assert client.get(f"/api/v1/jobs/{states['finished']}/errors").json()["steps"]["n"] == TAIL
    assert client.get(f"/api/v1/jobs/{states['running']}/errors").status_code == 404
    assert client.get("/api/v1/sweeps/head-count/tables/errors.csv").status_code == 200
    with store.read() as session, pytest.raises(NotFoundError, match="has not finished"):
        job_errors(session, states["running"])

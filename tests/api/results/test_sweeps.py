"""What is said of sweeps and jobs, against what the builder wrote."""

from datetime import timedelta

import pytest
from builders import CONTROL, ENVIRONMENT, FINGERPRINT, START, build_sweep
from sqlalchemy.orm import Session

from headcount.api.results import (
    DataView,
    Difference,
    NotFoundError,
    ablation_table,
    cell_view,
    cells,
    evaluations,
    events_after,
    job_view,
    jobs,
    list_sweeps,
    newest_event,
    progress,
    sweep_version,
    sweep_view,
)

STATES = {
    (1, 1, 1e-3, 0): "diverged",
    (2, 1, 1e-3, 0): "failed",
    (4, 1, 1e-3, 0): "running",
    (8, 1, 1e-3, 0): "queued",
}


def test_a_sweep_counts_its_jobs(session: Session) -> None:
    build_sweep(session, kv_heads=(1,), states=STATES)
    view = sweep_view(session, "head-count")
    assert view.states == {
        "queued": 1,
        "running": 1,
        "cancelling": 0,
        "finished": 14,
        "diverged": 1,
        "failed": 1,
        "cancelled": 0,
    }
    assert (view.jobs, view.settled, view.state) == (18, 16, "running")
    # all jobs cost the same: 15 have a result, two stand at step 200 of 400
    assert view.progress == pytest.approx((15 + 0.5 + 0.5) / 18)
    assert (view.cells, view.controls) == (6, 1)
    assert view.data == (DataView(FINGERPRINT, "synthetic"),)
    assert view.axes["model.routing_heads"] == (1, 2, 4, 8, 16)
    assert view.last_settled == START + timedelta(seconds=180)


def test_the_newest_sweep_is_first_and_each_has_a_state(session: Session) -> None:
    build_sweep(session, "done", kv_heads=(1,), heads=(1, 2, 4), random=1)
    build_sweep(session, "stopped", kv_heads=(2,), states={(1, 2, 1e-3, 0): "cancelled"}, random=2)
    build_sweep(session, "waiting", kv_heads=(4,), states={(1, 4, 1e-3, 0): "queued"}, random=3)
    listed = list_sweeps(session)
    assert [(s.name, s.state) for s in listed] == [
        ("waiting", "queued"),
        ("stopped", "stopped"),
        ("done", "done"),
    ]
    assert listed[2].progress == 1
    assert len({sweep_version(session, s.name) for s in listed}) == 3


def test_cells_list_their_jobs(session: Session) -> None:
    build_sweep(session, kv_heads=(1,), states=STATES)
    control, *treatments = cells(session, "head-count")
    assert (control.is_control, control.settings) == (True, {"model.kv_heads": 1, "train.peak_lr": 1e-3})
    assert [c.state for c in treatments] == ["diverged", "failed", "running", "missing", "done"]
    assert [r.seed for r in treatments[0].results] == [0, 1, 2]
    assert (treatments[0].results[0].tail_mean, treatments[0].results[0].diverged_step) == (None, 120)
    assert cell_view(session, "head-count", control.id) == control
    absent = 2**31 - 1
    with pytest.raises(NotFoundError, match=f"sweep 'head-count' has no cell {absent}"):
        cell_view(session, "head-count", absent)


def test_pages_of_jobs_join_to_all_of_them(session: Session) -> None:
    build_sweep(session, states=STATES)
    seen, after = [], None
    while True:
        page = jobs(session, "head-count", after=after, limit=7)
        seen += page.jobs
        after = page.next
        if after is None:
            break
    assert [j.position for j in seen] == list(range(54))
    assert len({j.id for j in seen}) == 54
    assert tuple(seen) == jobs(session, "head-count", limit=1000).jobs
    (failed,) = jobs(session, "head-count", state="failed").jobs
    assert (failed.seed, failed.step, failed.steps) == (0, 200, 400)
    assert {j.seed for j in jobs(session, "head-count", seed=2).jobs} == {2}
    assert len(jobs(session, "head-count", cell=seen[5].cell).jobs) == 3


def test_a_job_knows_its_control_and_where_it_differs(session: Session) -> None:
    build_sweep(session, kv_heads=(1,))
    row = next(r for r in ablation_table(session, "head-count").treatments if r.rank == 1)
    (summary,) = jobs(session, "head-count", cell=row.cell, seed=0).jobs
    view = job_view(session, summary.id)
    assert view.difference == (
        Difference("model.residual", "mhar", "additive"),
        Difference("model.routing_heads", row.settings["model.routing_heads"], 1),
    )
    assert row.delta is not None
    assert view.tail_mean is not None
    assert view.control_tail_mean is not None
    assert view.tail_mean - view.control_tail_mean == row.delta.deltas[0]
    assert (view.data, view.measurements) == ("synthetic", {"tokens_per_second": 1e5})
    (attempt,) = view.attempts
    assert (attempt.number, attempt.cause, attempt.environment) == (1, "finished", ENVIRONMENT)
    control = job_view(session, view.control_id or "")
    assert (control.control_id, control.difference, control.config["model.residual"]) == (
        None,
        (),
        "additive",
    )
    with pytest.raises(NotFoundError, match="no job has the id 'abc'"):
        job_view(session, "abc")


def test_curves_of_a_diverged_job_end_without_a_number(session: Session) -> None:
    build_sweep(session, kv_heads=(1,), states=STATES)
    (diverged,) = jobs(session, "head-count", state="diverged").jobs
    points = evaluations(session, diverged.id)
    assert [p.step for p in points] == list(range(0, 121, 10))
    assert [p.step for p in points if p.loss is None] == [120]
    steps = progress(session, diverged.id, after_step=100, limit=5)
    assert [(p.step, p.loss is None) for p in steps] == [(110, False), (120, True)]
    assert len(progress(session, diverged.id, limit=3)) == 3


def test_events_go_on_from_the_last_one_seen(session: Session) -> None:
    build_sweep(session, "one", kv_heads=(1,), heads=(1, 2, 4), states={(CONTROL, 1, 1e-3, 0): "queued"})
    build_sweep(session, "two", kv_heads=(2,), heads=(1, 2, 4), random=1)
    first = events_after(session, 0, limit=5)
    rest = events_after(session, first[-1].id)
    assert [e.id for e in (*first, *rest)] == list(range(first[0].id, newest_event(session) + 1))
    assert len(first) == 5
    assert {e.sweep for e in events_after(session, 0, sweep="two")} == {"two"}
    assert events_after(session, newest_event(session)) == ()
    with pytest.raises(NotFoundError):
        events_after(session, 0, sweep="three")

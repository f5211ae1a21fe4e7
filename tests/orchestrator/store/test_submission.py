"""What a submission finds and changes: nothing is trained twice, and an edit changes only what it says."""

from datetime import UTC, datetime
from typing import Any

from plans import SWEEP, end, finish, make_plan, start_next, submit_text
from sqlalchemy import func, select

from headcount.orchestrator.store import Store, Submission, submit, withdraw
from headcount.orchestrator.store.difference import Difference, difference
from headcount.orchestrator.store.models import Cell, Dataset, Event, Job, Sweep, SweepJob
from headcount.orchestrator.store.steering import pause
from headcount.orchestrator.store.submission import compare
from headcount.trainer.config import job_from_fields
from headcount.trainer.flops import job_flops, parameter_count


def test_a_new_sweep_is_stored_as_planned(store: Store) -> None:
    submission = submit_text(store)
    assert submission == Submission(
        sweep_id=1, new=6, known=0, shared=0, requeued=0, added_cells=3, removed_cells=0
    )
    plan = make_plan()
    with store.read() as session:
        sweep = session.get_one(Sweep, 1)
        assert (sweep.name, sweep.yaml, sweep.axes, sweep.seeds, sweep.owner) == (
            "tiny",
            SWEEP,
            {"model.routing_heads": [1, 2]},
            [0, 1],
            "tester",
        )
        cells = session.scalars(select(Cell).order_by(Cell.position)).all()
        positions = {cell.id: cell.position for cell in cells}
        assert [(c.settings, c.is_control, positions.get(c.control_id or 0)) for c in cells] == [
            (dict(c.settings), c.is_control, c.control) for c in plan.cells
        ]
        for planned in plan.jobs:
            job = session.get_one(Job, planned.id)
            values = dict(job.config)
            assert job_from_fields(values, values.pop("seed")) == planned.config
            assert (job.state, job.seed, job.fingerprint) == ("queued", planned.config.seed, "ab" * 32)
            assert (job.parameters, job.flops) == (parameter_count(planned.config), job_flops(planned.config))
            wish = session.get_one(SweepJob, (1, planned.id))
            assert positions[wish.cell_id] == planned.cell
            assert (wish.control_job_id, wish.position, wish.wanted) == (
                planned.control_id,
                planned.position,
                True,
            )
        assert session.scalar(select(Dataset.name)) == "words"


def test_the_same_sweep_again_changes_nothing(store: Store) -> None:
    submit_text(store)
    before = _everything(store)
    submission = submit_text(store)
    assert (submission.new, submission.known, submission.shared) == (0, 6, 0)
    assert (submission.added_cells, submission.removed_cells, submission.requeued) == (0, 0, 0)
    assert _everything(store) == before


def test_an_edited_sweep_adds_what_is_new_and_withdraws_what_is_gone(store: Store) -> None:
    submit_text(store)
    with store.write() as session:
        finish(session, start_next(session))
    edited = SWEEP.replace("[1, 2]", "[2, 4]")
    submission = submit_text(store, edited)
    assert (submission.new, submission.known, submission.shared) == (2, 4, 0)
    assert (submission.added_cells, submission.removed_cells) == (1, 1)
    with store.read() as session:
        settings = session.scalars(select(Cell.settings).order_by(Cell.position)).all()
        assert [s.get("model.routing_heads") for s in settings] == [2, 4, None]
        planned = {job.id for job in make_plan(edited).jobs}
        assert set(session.scalars(select(SweepJob.job_id))) == planned
        gone = {job.id for job in make_plan().jobs} - planned
        assert _states(store, gone) == ["cancelled", "cancelled"]
        assert session.get_one(Sweep, 1).yaml == edited


def test_two_sweeps_share_their_controls_and_cancelling_one_withdraws_only_its_wish(store: Store) -> None:
    submit_text(store)
    other = SWEEP.replace("tiny", "other").replace("[1, 2]", "[2, 4]")
    submission = submit_text(store, other)
    assert (submission.new, submission.shared, submission.known) == (2, 4, 0)
    with store.write() as session:
        assert withdraw(session, submission.sweep_id) == 6
    first = {job.id for job in make_plan().jobs}
    own = {job.id for job in make_plan(other).jobs} - first
    assert _states(store, first) == ["queued"] * 6
    assert _states(store, own) == ["cancelled"] * 2


def test_withdrawing_a_running_job_asks_for_its_end_and_wishing_again_queues_it_again(store: Store) -> None:
    submission = submit_text(store)
    with store.write() as session:
        work = start_next(session)
        withdraw(session, submission.sweep_id)
    assert _states(store, [work.job_id]) == ["cancelling"]
    submit_text(store)  # wished for again before the slot has let go
    assert _states(store, [work.job_id]) == ["cancelling"]
    with store.write() as session:
        end(session, work, "cancelled")
    assert sorted(set(_states(store, [job.id for job in make_plan().jobs]))) == ["queued"]


def test_failed_and_cancelled_jobs_are_queued_again_and_results_are_kept(store: Store) -> None:
    submission = submit_text(store)
    with store.write() as session:
        done, failed = start_next(session), start_next(session, "slot-2")
        finish(session, done)
        end(session, failed, "user_error", "no such card")
        withdraw(session, submission.sweep_id)
    again = submit_text(store)
    assert (again.known, again.requeued) == (6, 5)
    with store.read() as session:
        assert session.get_one(Job, done.job_id).state == "finished"
        job = session.get_one(Job, failed.job_id)
        assert (job.state, job.forgiven_attempts, job.ended) == ("queued", 1, None)
        assert session.scalars(select(SweepJob.wanted)).all() == [True] * 6


def test_compare_tells_what_submit_would_do_and_changes_nothing(store: Store) -> None:
    edited = SWEEP.replace("[1, 2]", "[2, 4]")
    with store.read() as session:
        assert compare(session, make_plan()).new == 6
    submit_text(store)
    before = _everything(store)
    with store.read() as session:
        compared = compare(session, make_plan(edited))
    assert _everything(store) == before
    assert compared == submit_text(store, edited)


ANALYSIS = "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2]}\n"


def test_what_an_edited_file_changes_is_told_by_cell_seed_and_field(store: Store) -> None:
    with store.read() as session:
        assert difference(session, make_plan()) is None
    submit_text(store)
    edited = SWEEP.replace("[1, 2]", "[2, 4]").replace("[0, 1]", "[1, 5]") + "budget: {gpu_hours: 2}\n"
    with store.read() as session:
        assert not difference(session, make_plan())
        assert difference(session, make_plan(edited)) == Difference(
            added=({"model.routing_heads": 4},),
            removed=({"model.routing_heads": 1},),
            kept=2,
            seeds_added=(5,),
            seeds_removed=(0,),
            edited=("gpu_hours",),
            exploratory=False,
        )


def test_an_analysis_that_was_edited_after_submission_is_exploratory_until_it_is_put_back(
    store: Store,
) -> None:
    wide = SWEEP.replace("[1, 2]", "[1, 2, 4, 8]")
    for text, exploratory in (
        (wide + ANALYSIS, False),
        (wide + ANALYSIS.replace("[1, 4]", "[1, 8]"), True),
        (wide, True),
        (wide + ANALYSIS, False),
    ):
        with store.read() as session:
            found = difference(session, make_plan(text))
            assert found is None or found.exploratory == exploratory
        submit_text(store, text)
        with store.read() as session:
            assert session.get_one(Sweep, 1).is_exploratory == exploratory


def test_jobs_that_are_added_to_a_paused_sweep_are_paused(store: Store) -> None:
    submission = submit_text(store)
    with store.write() as session:
        pause(session, submission.sweep_id, by="tester")
    submit_text(store, SWEEP.replace("[1, 2]", "[1, 2, 4]"))
    with store.read() as session:
        assert session.scalars(select(SweepJob.paused)).all() == [True] * 8


def test_a_sweep_s_limits_are_stored_and_a_submission_without_an_end_lifts_it(store: Store) -> None:
    text = SWEEP + "budget: {gpu_hours: 2.5}\nresources: {gpu_share: 0.25, accelerator: H200}\n"
    end_of_time = datetime(2031, 5, 6, tzinfo=UTC)
    with store.write() as session:
        submit(session, make_plan(text), "tester", end_of_time)
    with store.read() as session:
        sweep = session.get_one(Sweep, 1)
        assert (sweep.gpu_hours, sweep.gpu_share, sweep.accelerator, sweep.gpus_per_job, sweep.stop_at) == (
            (2.5, 0.25, "H200", 1, end_of_time)
        )
    submit_text(store, text)
    with store.read() as session:
        assert session.get_one(Sweep, 1).stop_at is None


def test_a_large_sweep_is_stored_in_one_go(store: Store) -> None:
    submit_text(store, SWEEP.replace("[0, 1]", str(list(range(700)))))
    with store.read() as session:
        assert session.scalar(select(func.count()).select_from(SweepJob)) == 2100
        assert session.scalar(select(func.count()).select_from(Event)) == 1


def _states(store: Store, job_ids: Any) -> list[str]:
    with store.read() as session:
        return list(session.scalars(select(Job.state).where(Job.id.in_(job_ids))))


def _everything(store: Store) -> dict[str, list[Any]]:
    with store.read() as session:
        return {
            table.__tablename__: sorted(map(repr, session.execute(select(*table.__table__.columns)).all()))
            for table in (Sweep, Cell, Job, SweepJob, Dataset, Event)
        }

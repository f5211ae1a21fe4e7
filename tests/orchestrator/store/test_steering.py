"""A sweep on its way is paused, resumed, put before others and tried again; what others want goes on."""

from builders import build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Cell, Evaluation, Event, Job, Sweep, SweepJob
from headcount.orchestrator.store.queue import next_jobs
from headcount.orchestrator.store.steering import delete_sweep, pause, resume, retry, set_priority

WAITING = {(h, 1, 1e-3, 0): "queued" for h in (None, 1, 4, 8)}


def fill(store: Store) -> tuple[int, int]:
    """Two sweeps of four queued jobs each."""
    with store.write() as session:
        one = build_sweep(session, "one", heads=(1, 4, 8), kv_heads=(1,), seeds=(0,), states=WAITING)
        states = {(h, 2, rate, 0): state for (h, _, rate, _), state in WAITING.items()}
        two = build_sweep(session, "two", heads=(1, 4, 8), kv_heads=(2,), seeds=(0,), states=states)
    return one, two


def jobs_of(session: Session, sweep_id: int) -> set[str]:
    return set(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id == sweep_id)))


def test_a_paused_sweep_starts_nothing_until_it_is_resumed(store: Store) -> None:
    one, two = fill(store)
    with store.write() as session:
        before = session.scalar(select(Sweep.version).where(Sweep.id == one)) or 0
        assert pause(session, one, by="ada") == 4
        assert pause(session, one, by="ada") == 0
    with store.read() as session:
        assert set(next_jobs(session, 10)) == jobs_of(session, two)
        assert session.scalar(select(Sweep.version).where(Sweep.id == one)) == before + 1
        (event,) = session.scalars(select(Event).where(Event.kind == "paused"))
        assert (event.sweep_id, event.detail) == (one, {"by": "ada", "jobs": 4, "paused": True})
    with store.write() as session:
        assert resume(session, one, by="ada") == 4
    with store.read() as session:
        assert set(next_jobs(session, 10)) == jobs_of(session, one) | jobs_of(session, two)


def test_a_job_that_another_sweep_wants_runs_although_one_is_paused(store: Store) -> None:
    one, two = fill(store)
    with store.write() as session:
        shared = min(jobs_of(session, one))
        wish = session.get_one(SweepJob, (one, shared))
        cell = session.scalars(select(SweepJob.cell_id).where(SweepJob.sweep_id == two)).first()
        session.add(SweepJob(sweep_id=two, job_id=shared, cell_id=cell, position=wish.position))
        session.flush()
        pause(session, one, by="ada")
        assert shared in next_jobs(session, 10)


def test_a_higher_priority_is_dispatched_first(store: Store) -> None:
    one, two = fill(store)
    with store.read() as session:
        assert set(next_jobs(session, 4)) == jobs_of(session, one)
    with store.write() as session:
        assert set_priority(session, two, 5, by="ada") == 4
    with store.read() as session:
        assert set(next_jobs(session, 4)) == jobs_of(session, two)


def test_failed_jobs_are_queued_again_and_no_others(store: Store) -> None:
    states = {(1, 1, 1e-3, 0): "failed", (4, 1, 1e-3, 0): "cancelled", (8, 1, 1e-3, 0): "diverged"}
    with store.write() as session:
        sweep = build_sweep(session, heads=(1, 4, 8), kv_heads=(1,), seeds=(0,), states=states)
        failed = session.scalar(select(Job.id).where(Job.state == "failed"))
        session.get_one(SweepJob, (sweep, failed)).wanted = False
    with store.write() as session:
        assert retry(session, sweep, by="ada") == 1
        assert retry(session, sweep, by="ada") == 0
    with store.read() as session:
        assert sorted(session.scalars(select(Job.state))) == ["cancelled", "diverged", "finished", "queued"]
        job = session.get_one(Job, failed)
        assert (job.state, job.ended, job.forgiven_attempts) == ("queued", None, 1)
        assert next_jobs(session, 10) == [failed]
        (event,) = session.scalars(select(Event).where(Event.kind == "requeued"))
        assert event.detail == {"by": "ada", "jobs": 1}


def test_a_deleted_sweep_leaves_its_jobs_and_those_of_others(store: Store) -> None:
    with store.write() as session:
        one = build_sweep(session, "one", heads=(1, 8), kv_heads=(1,), seeds=(0,), states=WAITING)
        two = build_sweep(session, "two", heads=(1, 8), kv_heads=(2,), seeds=(0,))
        cell = session.scalars(select(SweepJob.cell_id).where(SweepJob.sweep_id == two)).first()
        shared = min(jobs_of(session, one))
        session.add(SweepJob(sweep_id=two, job_id=shared, cell_id=cell, position=9))
        alone = jobs_of(session, one) - {shared}
        evaluations = len(session.scalars(select(Evaluation.step)).all())
        newest = max(session.scalars(select(Event.id)))
    with store.write() as session:
        assert delete_sweep(session, one, by="ada") == 3
    with store.read() as session:
        assert session.scalars(select(Sweep.name)).all() == ["two"]
        assert {c.sweep_id for c in session.scalars(select(Cell))} == {two}
        assert jobs_of(session, one) == set()
        assert len(session.scalars(select(Evaluation.step)).all()) == evaluations
        states = {job_id: session.get_one(Job, job_id).state for job_id in (*alone, shared)}
        assert states == dict.fromkeys(alone, "cancelled") | {shared: "queued"}
        told = session.scalars(select(Event).where(Event.id > newest)).all()
        assert [(e.sweep_id, e.kind) for e in told] == [(None, "deleted")]
        assert told[0].detail == {"by": "ada", "sweep": "one", "owner": "tester", "jobs": 3}
        assert not session.scalars(select(Event).where(Event.sweep_id == one)).all()

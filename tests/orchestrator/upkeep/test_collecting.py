"""What `gc` finds and deletes: only what ended long enough ago and nothing needs; the rest stays whole."""

from datetime import timedelta
from pathlib import Path

import pytest
from plans import SWEEP, end, finish, make_plan, start_next, submit_text
from sqlalchemy import func, select

from headcount.orchestrator.artifacts.weights import weights_key
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, steering
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Artifact, Attempt, Evaluation, Event, Job, Measurement
from headcount.orchestrator.store.transitions import attempt_folder, job_folder
from headcount.orchestrator.upkeep.collecting import Pile, collect, find_piles

LATER = timedelta(minutes=1)
CHECKPOINT = "checkpoints/step-00000040.pt"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home", "", tmp_path / "artifacts")


@pytest.fixture
def jobs(store: Store, settings: Settings) -> dict[str, str]:
    """A finished, a failed and a running job of a sweep, each with a checkpoint and a log; ids by state."""
    submit_text(store)
    found = {}
    with store.write() as session:
        for state in ("finished", "failed", "running"):
            work = start_next(session)
            if state == "finished":
                finish(session, work)
                session.add(_artifact(work.job_id, "model", "model.safetensors"))
            else:
                session.add(_artifact(work.job_id, "checkpoint", CHECKPOINT))
            if state == "failed":
                end(session, work, "user_error")
            found[state] = work.job_id
            for name in (CHECKPOINT, CHECKPOINT.replace(".pt", ".json"), "model.safetensors"):
                _write(settings.artifacts / attempt_folder(work.job_id, 1) / name, 100)
            _write(settings.artifacts / work.log, 10)
    return found


def _artifact(job_id: str, kind: str, file: str) -> Artifact:
    return Artifact(
        key=f"{attempt_folder(job_id, 1)}/{file}", job_id=job_id, kind=kind, sha256="ab" * 32, created=now()
    )


def _write(file: Path, size: int) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(size))


def _piles(store: Store, settings: Settings) -> dict[str, Pile]:
    return {pile.kind: pile for pile in find_piles(store, settings, now() + LATER)}


def test_what_ended_is_found_and_nothing_changes(
    store: Store, settings: Settings, jobs: dict[str, str]
) -> None:
    piles = _piles(store, settings)
    ended = sorted((jobs["finished"], jobs["failed"]))
    assert list(piles["checkpoints"].items) == [f"{attempt_folder(job, 1)}/{CHECKPOINT}" for job in ended]
    assert piles["models"].items == (f"{attempt_folder(jobs['finished'], 1)}/model.safetensors",)
    assert {kind: (len(p.items), p.size) for kind, p in piles.items()} == {
        "checkpoints": (2, 400),
        "models": (1, 100),
        "logs": (2, 20),
        "jobs": (0, 0),
        "weights": (0, 0),
    }
    assert all(pile.items == () for pile in find_piles(store, settings, now() - timedelta(days=1)))
    assert _piles(store, settings) == piles


def test_deleted_files_are_named_no_more_and_running_jobs_keep_theirs(
    store: Store, settings: Settings, jobs: dict[str, str]
) -> None:
    for kind in ("checkpoints", "logs"):
        pile = _piles(store, settings)[kind]
        assert collect(store, settings, pile, now() + LATER, "tester") == 2
        assert _piles(store, settings)[kind].items == ()
    left = {file.name for file in (settings.artifacts / attempt_folder(jobs["finished"], 1)).rglob("*")}
    assert left == {"model.safetensors"}
    running = settings.artifacts / job_folder(jobs["running"])
    assert len([file for file in running.rglob("*") if file.is_file()]) == 4
    with store.read() as session:
        assert session.scalars(select(Attempt.log).where(Attempt.ended.is_not(None))).all() == [None, None]
        kept = session.execute(select(Artifact.job_id, Artifact.kind)).all()
        assert sorted(kept) == sorted([(jobs["finished"], "model"), (jobs["running"], "checkpoint")])


def test_a_job_goes_with_its_results_once_no_sweep_has_it(
    store: Store, settings: Settings, jobs: dict[str, str]
) -> None:
    other = SWEEP.replace("tiny", "other").replace("[1, 2]", "[2]")
    shared = {job.id for job in make_plan(other).jobs}
    submit_text(store, other)
    with store.write() as session:
        steering.delete_sweep(session, 1, by="tester")
        events = session.scalar(select(func.count()).select_from(Event))
    own = {j for j in jobs.values() if j not in shared}
    pile = _piles(store, settings)["jobs"]
    settled = set(pile.items)
    assert own - {jobs["running"]} <= settled
    assert not settled & shared
    assert collect(store, settings, pile, now() + LATER, "tester") == len(settled)
    with store.read() as session:
        assert not settled & set(session.scalars(select(Job.id)))
        for table in (Evaluation, Measurement, Attempt, Artifact):
            assert not settled & set(session.scalars(select(table.job_id)))
        assert session.scalar(select(func.count()).select_from(Event)) == (events or 0) + 1
        assert shared <= set(session.scalars(select(Job.id)))
    assert not any((settings.artifacts / job_folder(job)).exists() for job in settled)


def test_weights_stay_while_a_job_starts_from_them(
    store: Store, settings: Settings, jobs: dict[str, str]
) -> None:
    used, unused, late = ("ab" * 32, "cd" * 32, "ef" * 32)
    for sha256 in (used, unused):
        _write(settings.artifacts / weights_key(sha256), 30)
    with store.write() as session:
        job = session.get_one(Job, jobs["finished"])
        job.config = {**job.config, "init.weights": used}
    pile = _piles(store, settings)["weights"]
    assert (pile.items, pile.size) == ((weights_key(unused),), 30)
    a_day_ago = now() - timedelta(days=1)
    assert {pile.kind: pile.items for pile in find_piles(store, settings, a_day_ago)}["weights"] == ()
    _write(settings.artifacts / weights_key(late), 30)
    both = Pile("weights", (weights_key(unused), weights_key(late)), 60)
    with store.write() as session:  # a sweep that was submitted meanwhile
        job = session.get_one(Job, jobs["failed"])
        job.config = {**job.config, "init.weights": late}
    assert collect(store, settings, both, now() + LATER, "tester") == 1
    left = {file.stem for file in (settings.artifacts / "weights").rglob("*.safetensors")}
    assert left == {used, late}


def test_a_job_that_was_wished_for_again_meanwhile_stays(
    store: Store, settings: Settings, jobs: dict[str, str]
) -> None:
    with store.write() as session:
        steering.delete_sweep(session, 1, by="tester")
    pile = _piles(store, settings)["jobs"]
    assert jobs["finished"] in pile.items
    submit_text(store)
    assert collect(store, settings, pile, now() + LATER, "tester") == 0
    assert (settings.artifacts / attempt_folder(jobs["finished"], 1) / "model.safetensors").exists()

"""What an attempt goes on from, in a folder that all nodes share."""

from pathlib import Path
from typing import Any

from headcount.orchestrator.artifacts.attempts import statements, take_over
from headcount.trainer.job_files import checkpoint

OWNER = {"seed": 0}


def save(job: Path, attempt: int, step: int) -> checkpoint.Checkpoint:
    return checkpoint.save(job / f"attempt-{attempt}" / "checkpoints", step, {"step": step}, OWNER)


def newest(job: Path, attempt: int) -> Any:
    return checkpoint.load_newest(job / f"attempt-{attempt}" / "checkpoints", OWNER)


def names(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_the_latest_attempts_come_first_and_of_one_the_newest() -> None:
    keys = [
        "jobs/ab/id/attempt-9/checkpoints/step-00000400.json",
        "jobs/ab/id/attempt-10/checkpoints/step-00000200.json",
        "jobs/ab/id/attempt-10/checkpoints/step-00000300.json",
        "jobs/ab/id/checkpoints/step-00000900.json",
        "jobs/ab/id/attempt-11/checkpoints/step-00000300.pt",
        "jobs/ab/id/attempt-11/sending/step-00000300.json",
    ]
    assert statements(keys) == [keys[2], keys[1], keys[0], keys[3]]


def test_an_attempt_goes_on_from_its_own_copy_and_those_before_are_cleared_away(tmp_path: Path) -> None:
    for step in (10, 20, 30):
        save(tmp_path, 1, step)
    (tmp_path / "attempt-1.log").write_text("printed")
    take_over(tmp_path, 2)
    assert newest(tmp_path, 2)["step"] == 30
    files = {f"attempt-2/checkpoints/step-000000{step}.{end}" for step in (20, 30) for end in ("pt", "json")}
    assert names(tmp_path) == {*files, "attempt-1.log"}


def test_a_damaged_checkpoint_is_passed_over_within_an_attempt_and_for_the_one_before(tmp_path: Path) -> None:
    save(tmp_path, 1, 10)
    for step in (15, 20):
        save(tmp_path, 2, step)
    (tmp_path / "attempt-2/checkpoints/step-00000020.pt").write_bytes(b"torn")
    take_over(tmp_path, 3)
    assert newest(tmp_path, 3)["step"] == 15
    (tmp_path / "attempt-3/checkpoints/step-00000015.pt").write_bytes(b"torn")
    save(tmp_path, 2, 12)
    take_over(tmp_path, 4)
    assert newest(tmp_path, 4)["step"] == 12


def test_a_lost_attempt_that_writes_on_is_not_gone_on_from(tmp_path: Path) -> None:
    save(tmp_path, 1, 10)
    take_over(tmp_path, 2)
    before = {name: (tmp_path / name).read_bytes() for name in names(tmp_path)}
    for step in (20, 30, 40):
        save(tmp_path, 1, step)
    assert {name: (tmp_path / name).read_bytes() for name in before} == before
    take_over(tmp_path, 3)
    assert newest(tmp_path, 3)["step"] == 10
    assert {name.partition("/")[0] for name in names(tmp_path)} == {"attempt-3"}


def test_a_late_starter_takes_nothing_from_those_after_it(tmp_path: Path) -> None:
    save(tmp_path, 3, 50)
    take_over(tmp_path, 2)
    assert newest(tmp_path, 3)["step"] == newest(tmp_path, 2)["step"] == 50


def test_files_of_a_version_without_folders_by_attempt_are_gone_on_from(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "checkpoints", 10, {"step": 10}, OWNER)
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    take_over(tmp_path, 2)
    assert newest(tmp_path, 2)["step"] == 10
    assert (tmp_path / "attempt-2/model.safetensors").read_bytes() == b"weights"
    assert not (tmp_path / "checkpoints").exists()

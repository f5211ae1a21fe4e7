import hashlib
import re
import resource
from pathlib import Path

import pytest
import torch

from headcount.trainer.errors import UserError
from headcount.trainer.job_files.checkpoint import load_newest, save

OWNER = {"seed": 0, "data.context": 16}


def state(step: int) -> dict[str, object]:
    return {"step": step, "model": {"w": torch.full((1000,), float(step))}}


def saved(folder: Path, *steps: int) -> None:
    for step in steps:
        save(folder, step, state(step), OWNER)


def newest(folder: Path) -> int | None:
    loaded = load_newest(folder, OWNER)
    return None if loaded is None else loaded["step"]


def test_two_are_kept_and_the_newest_is_loaded(tmp_path: Path) -> None:
    saved(tmp_path, 5, 10, 100)
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [f"step-{step:08d}.{kind}" for step in (10, 100) for kind in ("json", "pt")]
    loaded = load_newest(tmp_path, OWNER)
    assert loaded is not None
    assert loaded["step"] == 100
    assert torch.equal(loaded["model"]["w"], torch.full((1000,), 100.0))


def test_the_event_names_the_file_and_its_hash(tmp_path: Path) -> None:
    event = save(tmp_path, 7, state(7), OWNER)
    assert (event.step, event.file) == (7, "step-00000007.pt")
    assert event.sha256 == hashlib.sha256((tmp_path / event.file).read_bytes()).hexdigest()


def test_a_folder_without_checkpoints(tmp_path: Path) -> None:
    assert newest(tmp_path) is None
    assert newest(tmp_path / "missing") is None


@pytest.mark.parametrize("harm", ["cut", "flipped bit", "no weights", "no statement", "cut statement"])
def test_a_damaged_checkpoint_is_passed_over_for_the_older_one(
    tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    saved(tmp_path, 5, 10)
    weights, statement = tmp_path / "step-00000010.pt", tmp_path / "step-00000010.json"
    content = weights.read_bytes()
    if harm == "cut":
        weights.write_bytes(content[:-100])
    elif harm == "flipped bit":
        weights.write_bytes(content[:2000] + bytes([content[2000] ^ 1]) + content[2001:])
    elif harm == "no weights":
        weights.unlink()
    elif harm == "no statement":
        statement.unlink()
    else:
        statement.write_text(statement.read_text()[:20])
    assert newest(tmp_path) == 5
    assert ("step-00000010.pt, which is damaged" in caplog.text) == (harm != "no statement")
    saved(tmp_path, 12)
    assert sorted(p.name for p in tmp_path.glob("*.json")) == ["step-00000005.json", "step-00000012.json"]


def test_when_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    saved(tmp_path, 5, 10)
    for weights in tmp_path.glob("*.pt"):
        weights.write_bytes(b"")
    assert newest(tmp_path) is None


def test_what_a_killed_writer_left_is_cleared_away(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    (tmp_path / ".step-00000006.pt.123").write_bytes(b"half")
    (tmp_path / "step-00000006.pt").write_bytes(b"without a statement")
    assert newest(tmp_path) == 5
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-00000005.json", "step-00000005.pt"]


def test_a_checkpoint_of_another_owner_is_refused(tmp_path: Path) -> None:
    saved(tmp_path, 5)
    with pytest.raises(UserError, match=r"its data\.context is 16, this job's is 32; choose another folder"):
        load_newest(tmp_path, {**OWNER, "data.context": 32})
    with pytest.raises(UserError, match=r"its precision is the default, this job's is bf16"):
        load_newest(tmp_path, {**OWNER, "precision": "bf16"})


def test_a_full_disk_is_told_and_keeps_what_was_there(tmp_path: Path) -> None:
    saved(tmp_path, 5, 10)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    told = f"cannot write the checkpoint of step 15 in {tmp_path}: File too large; free some space"
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(UserError, match=re.escape(told)):
            save(tmp_path, 15, {"w": torch.zeros(100_000)}, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match=r"cannot write the checkpoint of step 1 in .*/file/x: Not a directory"
    ):
        saved(tmp_path / "file" / "x", 1)

"""An attempt that is given up and trains on: it replaces nothing of those after it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from homes import wait_for
from jobs import all_events, small_work
from s3_server import Bucket

from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.artifacts.datasets import publish
from headcount.orchestrator.artifacts.folder import FolderArtifacts
from headcount.orchestrator.slots.slot import Slot
from headcount.orchestrator.store.transitions import Work, job_folder
from headcount.trainer.data import open_dataset

SLOT = """
import functools, sys, time
import headcount.orchestrator.slots.slot as module
from headcount.orchestrator.store.transitions import Work
module.Execution = functools.partial(module.Execution, checkpoint_seconds=0)
slot = module.Slot(sys.argv[1], sys.argv[1] + "/artifacts", False, sys.argv[2] or None)
told = open(sys.argv[3], "w", buffering=1)  # what it prints is the job's
slot.start({work!r}, 0)
last = -1
while True:
    first, records = slot.events({work.attempt_id}, last, 1)
    last = first + len(records) - 1
    for record in records:
        print(record["kind"], record.get("step"), file=told)
"""


@contextmanager
def slot_process(home: Path, url: str | None, work: Work, told: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """A slot of its own that keeps a checkpoint at every update, and writes what it tells to a file."""
    code = SLOT.format(work=work)
    told.touch()
    process = subprocess.Popen([sys.executable, "-c", code, str(home), url or "", str(told)])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def steps(told: Path, kind: str) -> list[int]:
    lines = [line.split() for line in told.read_text().splitlines()]
    return [int(words[1]) for words in lines if words[0] == kind]


@pytest.mark.parametrize(
    "shared", [True, pytest.param(False, marks=pytest.mark.drill)], ids=["folder", "bucket"]
)
def test_an_attempt_that_is_given_up_and_writes_on_changes_nothing(
    shared: bool, tmp_path: Path, bucket: Bucket
) -> None:
    prepared = tmp_path / "prepared"
    work = small_work(prepared, steps=64, eval_every=8)
    url = None if shared else bucket.url
    homes = [prepared] * 3 if shared else [tmp_path / name for name in ("lost", "second", "third")]
    if url is not None:
        publish(open_dataset(work.fingerprint, prepared).manifest, prepared, Artifacts(url))
    works = [replace(work, attempt_id=n, number=n, log=work.log.replace("-1.", f"-{n}.")) for n in (1, 2, 3)]
    files = FolderArtifacts(prepared / "artifacts") if url is None else Artifacts(url)
    folder = job_folder(work.job_id)

    def content(number: int) -> dict[str, bytes | None]:
        return {key: files.read(key) for key in files.files(f"{folder}/attempt-{number}")}

    with slot_process(homes[0], url, works[0], tmp_path / "lost.txt") as lost:
        wait_for(lambda: len(steps(tmp_path / "lost.txt", "checkpoint")) >= 2)
        os.kill(lost.pid, signal.SIGSTOP)  # as a node that is cut off looks to the others
        with slot_process(homes[1], url, works[1], tmp_path / "second.txt") as second:
            wait_for(lambda: len(steps(tmp_path / "second.txt", "checkpoint")) >= 3)
            second.kill()
            second.wait()
        before, seen = content(2), len(steps(tmp_path / "lost.txt", "checkpoint"))
        os.kill(lost.pid, signal.SIGCONT)
        wait_for(lambda: "ended" in (tmp_path / "lost.txt").read_text())
        # on a folder that both share, what it was writing as that was cleared away may end it
        if not shared or "result" in (tmp_path / "lost.txt").read_text():
            assert len(steps(tmp_path / "lost.txt", "checkpoint")) > seen + 2
            assert content(1)
        assert content(2) == before
    [began] = steps(tmp_path / "second.txt", "started")
    assert 0 < began < 64

    slot = Slot(str(homes[2]), str(homes[2] / "artifacts"), False, url)
    third = all_events(slot, works[2])
    # from the last checkpoint of the one that was killed, and not from what the lost one finished
    assert began < steps(tmp_path / "second.txt", "checkpoint")[-1] <= third[0]["step"] < 64
    alone = all_events(Slot(str(prepared), str(tmp_path / "alone"), False), work)
    hashes = [[r["sha256"] for r in told if r["kind"] == "artifact"] for told in (third, alone)]
    assert hashes[0] == hashes[1]
    left = {key.removeprefix(f"{folder}/").partition("/")[0] for key in files.files(folder)}
    assert left == {"attempt-3", *(f"attempt-{number}.log" for number in (1, 2, 3))}

"""A job's files at an S3 server: sent whole, two kept, fetched anywhere, whatever is cut off on the way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from forwarding import Forward
from homes import wait_for
from jobs import all_events, small_work
from s3_server import Bucket

from headcount.orchestrator.artifacts import copies as copying
from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable
from headcount.orchestrator.artifacts.copies import JobCopies
from headcount.orchestrator.artifacts.datasets import publish
from headcount.orchestrator.artifacts.sending import Unsent
from headcount.orchestrator.slots.slot import Slot
from headcount.orchestrator.store.transitions import job_folder
from headcount.trainer.data import open_dataset
from headcount.trainer.events import Checkpoint
from headcount.trainer.job_files import checkpoint

KEY = "jobs/ab/job"
OWNER = {"seed": 0}


def copies(job: Path, url: str, attempt: int = 1) -> JobCopies:
    return JobCopies(job, KEY, attempt, Artifacts(url), lambda: True)


def save(job: Path, step: int, attempt: int = 1) -> checkpoint.Checkpoint:
    return checkpoint.save(job / f"attempt-{attempt}/checkpoints", step, {"step": step}, OWNER)


def send(job: Path, url: str, *steps: int, attempt: int = 1) -> None:
    """Write checkpoints and send each before the next is written."""
    for step in steps:
        event = save(job, step, attempt)
        assert list(copies(job, url, attempt).sent([event])) == [event]


def newest(job: Path, attempt: int = 1) -> Any:
    return checkpoint.load_newest(job / f"attempt-{attempt}/checkpoints", OWNER)


def checkpoints_at(url: str) -> set[str]:
    """The checkpoints there, without what their keys begin with."""
    keys = {key.removeprefix(f"{KEY}/") for key in Artifacts(url).files(KEY)}
    stems = {
        key.rpartition(".")[0].replace("/checkpoints/step-", " ").replace(" 0000000", " ") for key in keys
    }
    assert len(keys) == 2 * len(stems)
    return stems


def test_the_two_newest_checkpoints_are_kept_and_the_newest_is_fetched(
    tmp_path: Path, bucket: Bucket
) -> None:
    send(tmp_path / "jobs/ab/here", bucket.url, 1, 2, 3)
    assert checkpoints_at(bucket.url) == {"attempt-1 2", "attempt-1 3"}
    there = tmp_path / "jobs/ab/there"
    copies(there, bucket.url, attempt=2).fetch()
    assert newest(there, attempt=2)["step"] == 3
    assert len(list(there.rglob("*.pt"))) == 1
    send(there, bucket.url, 4, attempt=2)
    assert checkpoints_at(bucket.url) == {"attempt-1 3", "attempt-2 4"}
    send(there, bucket.url, 5, attempt=2)
    assert checkpoints_at(bucket.url) == {"attempt-2 4", "attempt-2 5"}


def test_a_lost_attempt_that_sends_on_replaces_and_removes_nothing(tmp_path: Path, bucket: Bucket) -> None:
    lost, there = tmp_path / "jobs/ab/lost", tmp_path / "jobs/ab/there"
    send(lost, bucket.url, 1, 2)
    copies(there, bucket.url, attempt=2).fetch()
    send(there, bucket.url, 3, 4, attempt=2)
    send(lost, bucket.url, 5, 6, 7)
    assert checkpoints_at(bucket.url) == {"attempt-1 6", "attempt-1 7", "attempt-2 3", "attempt-2 4"}
    last = tmp_path / "jobs/ab/last"
    copies(last, bucket.url, attempt=3).fetch()
    assert newest(last, attempt=3)["step"] == 4
    send(last, bucket.url, 8, attempt=3)
    assert checkpoints_at(bucket.url) == {"attempt-2 4", "attempt-3 8"}


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, bucket: Bucket) -> None:
    here, there = tmp_path / "jobs/ab/here", tmp_path / "jobs/ab/there"
    send(here, bucket.url, 1, 2)
    Artifacts(bucket.url).write(f"{KEY}/attempt-1/checkpoints/step-00000002.pt", b"half of it")
    copies(there, bucket.url, attempt=2).fetch()
    assert newest(there, attempt=2)["step"] == 1


def test_what_is_newer_here_stays(tmp_path: Path, bucket: Bucket) -> None:
    here = tmp_path / "jobs/ab/here"
    send(here, bucket.url, 1)
    save(here, 2)
    copies(here, bucket.url, attempt=2).fetch()
    assert newest(here, attempt=2)["step"] == 2
    assert not (here / "attempt-1").exists()


def test_an_address_that_fails_costs_the_checkpoint_and_not_the_training(
    tmp_path: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "LEAVING_SECONDS", 0.5)
    here = tmp_path / "jobs/ab/here"
    mine = copies(here, bucket.url.replace(bucket.name, "no-such-bucket"))
    [unsent] = mine.sent([save(here, 1)])
    assert isinstance(unsent, Unsent)
    assert unsent.step == 1
    assert unsent.message.startswith("cannot use the artifacts at s3://no-such-bucket")
    assert "the checkpoint of step 1 stays on this node" in caplog.text
    with pytest.raises(ArtifactsUnavailable, match="cannot use the artifacts at s3://no-such-bucket"):
        mine.fetch()


def test_an_error_of_training_leaves_what_was_on_its_way(tmp_path: Path, bucket: Bucket) -> None:
    here = tmp_path / "jobs/ab/here"

    def train() -> Iterator[checkpoint.Checkpoint]:
        yield save(here, 1)
        raise MemoryError

    sent = copies(here, bucket.url).sent(train())
    assert next(sent) == Checkpoint(1, "step-00000001.pt", ANY)
    with pytest.raises(MemoryError):
        next(sent)
    assert checkpoints_at(bucket.url) == {"attempt-1 1"}


def test_the_disk_is_cleared_of_what_is_at_the_address_alone(tmp_path: Path, bucket: Bucket) -> None:
    here = tmp_path / "jobs/ab/here"
    mine = copies(here, bucket.url)
    send(here, bucket.url, 1)
    save(here, 2)
    (here / "attempt-1.log").write_text("printed")
    mine.end(here / "attempt-1.log", f"{KEY}/attempt-1.log")
    assert newest(here)["step"] == 2
    send(here, bucket.url, 3)
    mine.end(here / "attempt-1.log", f"{KEY}/attempt-1.log")
    assert not here.exists()
    assert Artifacts(bucket.url).read(f"{KEY}/attempt-1.log") == b"printed"


SENDER = """
import sys
from pathlib import Path
from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.artifacts.copies import JobCopies
from headcount.trainer.job_files import checkpoint
job = Path(sys.argv[1])
state = {"step": 2, "fill": "x" * 4_000_000}
event = checkpoint.save(job / "attempt-1/checkpoints", 2, state, {"seed": 0})
for event in JobCopies(job, sys.argv[2], 1, Artifacts(sys.argv[3]), lambda: True).sent([event]):
    print("sent", flush=True)
"""


def test_a_kill_while_a_checkpoint_is_sent_loses_that_one_alone(tmp_path: Path, bucket: Bucket) -> None:
    here, there = tmp_path / "jobs/ab/here", tmp_path / "jobs/ab/there"
    send(here, bucket.url, 1)
    with Forward(("127.0.0.1", bucket.port), most=1_000_000) as narrow:
        sender = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(tmp_path / "jobs/ab/other"), KEY, bucket.url],
            env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{narrow.port}"},
            stdout=subprocess.PIPE,
        )
        wait_for(narrow.is_full.is_set, 60)
        sender.send_signal(signal.SIGKILL)
        assert sender.communicate()[0] == b""
    copies(there, bucket.url, attempt=2).fetch()
    assert newest(there, attempt=2)["step"] == 1
    send(there, bucket.url, 2, attempt=2)
    last = tmp_path / "jobs/ab/last"
    copies(last, bucket.url, attempt=3).fetch()
    assert newest(last, attempt=3)["step"] == 2


def test_a_job_goes_on_to_the_bit_on_a_node_that_shares_nothing(tmp_path: Path, bucket: Bucket) -> None:
    prepared = tmp_path / "prepared"
    work = small_work(prepared, steps=200, eval_every=10)
    publish(open_dataset(work.fingerprint, prepared).manifest, prepared, Artifacts(bucket.url))
    first = slot(tmp_path / "first", bucket.url)
    first.start(work, 0)
    wait_for(lambda: any(r.get("step", 0) >= 10 for r in first.events(work.attempt_id, -1, 1)[1]))
    first.stop(work.attempt_id, "preempted")
    stopped = all_events(first, work)
    assert [record["kind"] for record in stopped[-2:]] == ["checkpoint", "ended"]
    assert not list((tmp_path / "first").rglob("jobs/*/*/*"))

    again = replace(work, attempt_id=2, number=2, log=work.log.replace("-1", "-2"))
    resumed = all_events(slot(tmp_path / "second", bucket.url), again)
    assert resumed[0]["step"] == stopped[-2]["step"] >= 10
    alone = all_events(Slot(str(prepared), str(prepared / "artifacts"), False), work)
    hashes = [[r["sha256"] for r in told if r["kind"] == "artifact"] for told in (resumed, alone)]
    assert hashes[0] == hashes[1]
    assert resumed[-2]["tail_mean"] == alone[-2]["tail_mean"]

    folder = job_folder(work.job_id)
    kept = {key.removeprefix(f"{folder}/") for key in Artifacts(bucket.url).files(folder)}
    files = {f"attempt-2/{name}" for name in ("model.safetensors", "training_loss.npy")}
    assert kept >= {"attempt-1.log", "attempt-2.log", *files}
    assert len([name for name in kept if name.endswith(".pt")]) == 1
    told = json.loads(Artifacts(bucket.url).read(f"{folder}/{_statement(kept)}") or b"")
    assert told["step"] == 200


def slot(home: Path, url: str) -> Slot:
    return Slot(str(home), str(home / "artifacts"), False, url)


def _statement(names: set[str]) -> str:
    (found,) = (name for name in names if name.endswith(".json"))
    return found

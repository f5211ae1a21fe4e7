"""A job's files at an S3 server: sent whole, two kept, fetched anywhere, whatever is cut off on the way."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from homes import wait_for
from jobs import all_events, small_work
from s3_server import Bucket

from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable
from headcount.orchestrator.artifacts.copies import JobCopies
from headcount.orchestrator.artifacts.datasets import publish
from headcount.orchestrator.slots.slot import Slot
from headcount.orchestrator.store.transitions import job_folder
from headcount.trainer.data import open_dataset
from headcount.trainer.job_files import checkpoint

KEY = "jobs/ab/job"
OWNER = {"seed": 0}


def copies(folder: Path, url: str) -> JobCopies:
    return JobCopies(folder, KEY, Artifacts(url), lambda: True)


def save(folder: Path, step: int, size: int = 10) -> checkpoint.Checkpoint:
    return checkpoint.save(folder / "checkpoints", step, {"step": step, "fill": "x" * size}, OWNER)


def newest(folder: Path) -> Any:
    return checkpoint.load_newest(folder / "checkpoints", OWNER)


def test_the_two_newest_checkpoints_are_kept_and_the_newest_is_fetched(
    tmp_path: Path, bucket: Bucket
) -> None:
    here = tmp_path / "jobs/ab/here"
    events = (save(here, step) for step in (1, 2, 3))
    assert [event.step for event in copies(here, bucket.url).sent(events)] == [1, 2, 3]
    names = {key.rpartition("/")[2] for key in Artifacts(bucket.url).files(KEY)}
    assert names == {f"step-0000000{step}.{end}" for step in (2, 3) for end in ("pt", "json")}
    there = tmp_path / "jobs/ab/there"
    copies(there, bucket.url).fetch()
    assert newest(there)["step"] == 3
    assert len(list(there.rglob("*.pt"))) == 1


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path, bucket: Bucket) -> None:
    here, there = tmp_path / "jobs/ab/here", tmp_path / "jobs/ab/there"
    list(copies(here, bucket.url).sent(save(here, step) for step in (1, 2)))
    Artifacts(bucket.url).write(f"{KEY}/checkpoints/step-00000002.pt", b"half of it")
    copies(there, bucket.url).fetch()
    assert newest(there)["step"] == 1


def test_what_is_newer_here_stays(tmp_path: Path, bucket: Bucket) -> None:
    here = tmp_path / "jobs/ab/here"
    list(copies(here, bucket.url).sent([save(here, 1)]))
    save(here, 2)
    copies(here, bucket.url).fetch()
    assert newest(here)["step"] == 2


def test_an_address_that_fails_costs_the_checkpoint_and_not_the_training(
    tmp_path: Path, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    here = tmp_path / "jobs/ab/here"
    mine = copies(here, bucket.url.replace(bucket.name, "no-such-bucket"))
    assert list(mine.sent([save(here, 1)])) == []
    assert "the checkpoint of step 1 stays on this node" in caplog.text
    with pytest.raises(ArtifactsUnavailable, match="cannot use the artifacts at s3://no-such-bucket"):
        mine.fetch()


def test_the_disk_is_cleared_of_what_is_at_the_address_alone(tmp_path: Path, bucket: Bucket) -> None:
    here = tmp_path / "jobs/ab/here"
    mine = copies(here, bucket.url)
    list(mine.sent([save(here, 1)]))
    save(here, 2)
    (here / "attempt-1.log").write_text("printed")
    mine.end(here / "attempt-1.log", f"{KEY}/attempt-1.log")
    assert newest(here)["step"] == 2
    list(mine.sent([save(here, 3)]))
    mine.end(here / "attempt-1.log", f"{KEY}/attempt-1.log")
    assert not here.exists()
    assert Artifacts(bucket.url).read(f"{KEY}/attempt-1.log") == b"printed"


SENDER = """
import sys
from pathlib import Path
from headcount.orchestrator.artifacts.address import Artifacts
from headcount.orchestrator.artifacts.copies import JobCopies
from headcount.trainer.job_files import checkpoint
folder = Path(sys.argv[1])
event = checkpoint.save(folder / "checkpoints", 2, {"step": 2, "fill": "x" * 4_000_000}, {"seed": 0})
for event in JobCopies(folder, sys.argv[2], Artifacts(sys.argv[3]), lambda: True).sent([event]):
    print("sent", flush=True)
"""


def test_a_kill_while_a_checkpoint_is_sent_loses_that_one_alone(tmp_path: Path, bucket: Bucket) -> None:
    here, there = tmp_path / "jobs/ab/here", tmp_path / "jobs/ab/there"
    list(copies(here, bucket.url).sent([save(here, 1)]))
    with _Narrow(bucket.port, 1_000_000) as narrow:
        sender = subprocess.Popen(
            [sys.executable, "-c", SENDER, str(tmp_path / "jobs/ab/other"), KEY, bucket.url],
            env={**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{narrow.port}"},
            stdout=subprocess.PIPE,
        )
        wait_for(narrow.is_full.is_set, 60)
        sender.send_signal(signal.SIGKILL)
        assert sender.communicate()[0] == b""
    copies(there, bucket.url).fetch()
    assert newest(there)["step"] == 1
    list(copies(there, bucket.url).sent([save(there, 2)]))
    last = tmp_path / "jobs/ab/last"
    copies(last, bucket.url).fetch()
    assert newest(last)["step"] == 2


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
    assert kept >= {"attempt-1.log", "attempt-2.log", "model.safetensors", "training_loss.npy"}
    assert len([name for name in kept if name.endswith(".pt")]) == 1
    told = json.loads((Artifacts(bucket.url).read(f"{folder}/{_statement(kept)}")) or b"")
    assert told["step"] == 200


def slot(home: Path, url: str) -> Slot:
    return Slot(str(home), str(home / "artifacts"), False, url)


def _statement(names: set[str]) -> str:
    (found,) = (name for name in names if name.endswith(".json"))
    return found


class _Narrow:
    """A way to a port that lets so many bytes pass and then no more, like a cable that is pulled."""

    def __init__(self, port: int, most: int) -> None:
        self._target, self._left = port, most
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.is_full = threading.Event()

    def __enter__(self) -> "_Narrow":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        for client in self._clients():
            server = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _clients(self) -> Iterator[socket.socket]:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            yield client

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(65536):
                if counted:
                    self._left -= len(data)
                    if self._left < 0:
                        self.is_full.set()
                        return
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()

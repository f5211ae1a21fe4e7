"""Checkpoints on their way: training goes on, one at a time, tried again, waited for."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headcount.orchestrator.artifacts import copies, sending
from headcount.orchestrator.artifacts.address import ArtifactsUnavailable
from headcount.orchestrator.artifacts.sending import Sender, Unsent
from headcount.trainer.events import Checkpoint, Event, Progress
from headcount.trainer.job_files import checkpoint


def event(step: int) -> Checkpoint:
    return Checkpoint(step, f"step-{step:08}.pt", "ab" * 32)


class Way:
    """Holds each checkpoint until it is let through, and refuses as many tries as it is told."""

    def __init__(self, refusals: int = 0) -> None:
        self.begun: list[int] = []
        self.open = threading.Semaphore(0)
        self.refusals = refusals
        self.at_once = 0

    def __call__(self, checkpoint: Checkpoint) -> None:
        self.at_once += 1
        assert self.at_once == 1
        self.begun.append(checkpoint.step)
        self.open.acquire()
        self.at_once -= 1
        if self.refusals > 0:
            self.refusals -= 1
            raise ArtifactsUnavailable("the bucket is away")


def wait_for_begun(way: Way, number: int) -> None:
    deadline = time.monotonic() + 10
    while len(way.begun) < number:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_one_is_sent_at_a_time_and_one_that_waits_gives_way_to_a_newer_one() -> None:
    way = Way()
    sender = Sender(way)
    sender.add(event(1))
    wait_for_begun(way, 1)
    for step in (2, 3, 4):
        sender.add(event(step))
    assert sender.outcomes() == []  # none is told before it is there
    way.open.release(2)
    assert sender.finish(10) == [event(1), event(4)]
    assert way.begun == [1, 4]


def test_a_failure_is_told_once_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "RETRY_SECONDS", 0.01)
    way = Way(refusals=3)
    way.open.release(4)
    sender = Sender(way)
    sender.add(event(1))
    assert sender.finish(10) == [Unsent(1, "the bucket is away"), event(1)]
    assert way.begun == [1, 1, 1, 1]


def test_a_newer_one_is_sent_in_the_place_of_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "RETRY_SECONDS", 60)
    way = Way(refusals=1)
    sender = Sender(way)
    sender.add(event(1))
    way.open.release(2)
    wait_for_begun(way, 1)
    sender.add(event(2))
    assert sender.finish(10) == [Unsent(1, "the bucket is away"), event(2)]


def test_an_end_waits_for_what_is_on_its_way_and_no_longer_for_what_fails() -> None:
    way = Way()
    sender = Sender(way)
    sender.add(event(1))
    threading.Timer(0.3, way.open.release).start()
    began = time.monotonic()
    assert sender.finish(10) == [event(1)]
    assert 0.2 < time.monotonic() - began < 5

    way = Way(refusals=1000)
    way.open.release(1000)
    sender = Sender(way)
    sender.add(event(2))
    began = time.monotonic()
    assert sender.finish(0.2) == [Unsent(2, "the bucket is away")]
    assert time.monotonic() - began < sending.RETRY_SECONDS


def test_training_does_not_wait_for_a_checkpoint_on_its_way(tmp_path: Path) -> None:
    """Nor does what the trainer drops meanwhile go missing on the way."""
    address = _Held()
    own = tmp_path / "jobs/ab/id/attempt-1"
    mine = copies.JobCopies(own.parent, "jobs/ab/id", 1, address, lambda: False)  # type: ignore[arg-type]

    def train() -> Iterator[Event]:
        for step in range(1, 6):
            yield checkpoint.save(own / "checkpoints", step, {"step": step}, {})
            yield Progress(step, 1.0, 1e-3, 1.0, 1.0)
            if step == 1:
                assert address.began.wait(10)
        address.let.set()

    told = [type(e).__name__ + str(e.step) for e in mine.sent(train())]
    assert told == [*(f"Progress{step}" for step in range(1, 6)), "Checkpoint1", "Checkpoint5"]
    assert address.sizes["jobs/ab/id/attempt-1/checkpoints/step-00000001.pt"] > 0
    assert not list((own / "sending").iterdir())


class _Held:
    """An address that takes its time with the first file."""

    def __init__(self) -> None:
        self.began, self.let = threading.Event(), threading.Event()
        self.sizes: dict[str, int] = {}

    def upload(self, file: Path, key: str) -> None:
        self.began.set()
        assert self.let.wait(10)
        self.sizes[key] = len(file.read_bytes())

    def files(self, prefix: str) -> dict[str, int]:
        return {}

    def delete(self, keys: list[str]) -> None:
        assert not keys

"""A job's files, which the trainer keeps on the node's own disk, and their copies at the artifacts' address.

A checkpoint is sent while training goes on: its weights, then the statement that names their hash. One
whose sending was cut off has no statement, or weights of another hash, and counts for nothing. The newest
whole one is fetched before a job goes on, wherever it ran before.
"""

import json
import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable
from headcount.orchestrator.artifacts.attempts import (
    attempt_of,
    clear_before,
    link,
    statements,
    statements_in,
    take,
)
from headcount.orchestrator.artifacts.sending import RETRY_SECONDS, Sender, Unsent
from headcount.trainer.events import Artifact, Checkpoint, Event, Result
from headcount.trainer.job_files.files import has_hash

PATIENCE_SECONDS = 600.0
"""How long a job waits for an address that does not answer, before its first update and after its last."""

LEAVING_SECONDS = 20.0
"""How long one that has stopped tries to send its last checkpoint; its slot is given 30 s in all."""

ABANDONED_SECONDS = 24 * 3600.0
"""After this a job's folder that a killed slot has left on the node's disk is removed."""

log = logging.getLogger(__name__)


class JobCopies:
    """What one attempt fetches and sends."""

    def __init__(
        self, job: Path, key: str, number: int, artifacts: Artifacts, stop: Callable[[], bool]
    ) -> None:
        """`job` is the job's folder on this node, `key` what its files lie under, `number` the attempt's;
        `stop` ends all waiting."""
        self._job, self._own = job, job / f"attempt-{number}"
        self._key, self._own_key = key, f"{key}/attempt-{number}"
        self._number, self._artifacts, self._stop = number, artifacts, stop

    def fetch(self) -> None:
        """Bring the checkpoint to go on from into the attempt's folder; of an ended job every file.

        Raises `ArtifactsUnavailable` where the address does not answer for `PATIENCE_SECONDS`.
        """
        _clear_abandoned(self._job.parents[1])
        self._patiently(self._fetch)

    def sent(self, events: Iterable[Event]) -> Iterator[Event | Unsent]:
        """The events of the job, each after its file is there, and what could not be sent as yet.

        Training goes on while a checkpoint is sent; a job that stops waits for its last. The files of an
        ended job have to arrive: raises `ArtifactsUnavailable` as `fetch` does.
        """
        held: list[Event] = []
        sender = Sender(self._send_set_aside)
        try:
            for event in events:
                yield from sender.outcomes()
                if isinstance(event, Artifact) or (isinstance(event, Checkpoint) and held):
                    held.append(event)
                elif isinstance(event, Checkpoint):
                    self._set_aside(event)
                    sender.add(event)
                elif isinstance(event, Result):
                    yield from sender.finish(0)
                    self._patiently(lambda: self._send_all(held))
                    yield from held
                    yield event
                else:
                    yield event
            yield from sender.finish(LEAVING_SECONDS)
        except Exception:  # of training: what it wrote before is there all the same
            yield from sender.finish(LEAVING_SECONDS)
            raise
        finally:
            sender.finish(0)

    def end(self, output: Path, output_key: str) -> None:
        """Send what the job has printed; clear the node's disk unless its newest checkpoint is only here."""
        try:
            self._artifacts.upload(output, output_key)
            there = self._artifacts.files(f"{self._own_key}/checkpoints")
        except ArtifactsUnavailable as error:
            log.warning("%s", error)
            return
        newest = max((file.name for file in self._own.glob("checkpoints/step-*.json")), default="")
        if not newest or f"{self._own_key}/checkpoints/{newest}" in there:
            shutil.rmtree(self._job, ignore_errors=True)

    def _fetch(self) -> None:
        self._artifacts.check()
        there = self._artifacts.files(self._key)
        here = {f"{self._key}/{name}" for name in statements_in(self._job)}
        for statement in statements({*here, *there}):
            if (statement in here and take(self._local(statement), self._own)) or (
                statement in there and self._fetch_checkpoint(statement, there)
            ):
                break
        clear_before(self._job, self._number)

    def _fetch_checkpoint(self, statement: str, there: Iterable[str]) -> bool:
        """Bring one checkpoint into the attempt's folder; whether it is whole."""
        weights = statement.removesuffix(".json") + ".pt"
        content = self._artifacts.read(statement)
        try:
            sha256 = json.loads(content or b"")["sha256"]
        except (ValueError, KeyError, TypeError):
            return False
        if weights not in there:
            return False
        source = statement.rpartition("/checkpoints/")[0]
        self._download(weights, source)
        if not has_hash(target := self._own / weights.removeprefix(f"{source}/"), sha256):
            log.warning("passing over %s/%s, which is damaged", self._artifacts.url, weights)
            target.unlink()
            return False
        for key in there:  # an ended job's model and curves lie beside its checkpoints
            if key.rpartition("/")[0] == source and not key.endswith(".log"):
                self._download(key, source)
        self._download(statement, source)
        return True

    def _download(self, key: str, source: str) -> None:
        self._artifacts.download(key, self._own / key.removeprefix(f"{source}/"))

    def _set_aside(self, event: Checkpoint) -> None:
        """Keep a checkpoint that is to be sent: the trainer may drop it before it is."""
        for name in _files(event):
            link(self._own / "checkpoints" / name, self._own / "sending" / name)

    def _send_set_aside(self, event: Checkpoint) -> None:
        self._send_checkpoint(event, self._own / "sending")
        for old in (self._own / "sending").glob("step-*"):
            if old.stem <= Path(event.file).stem:
                old.unlink()

    def _send_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Artifact):
                self._artifacts.upload(self._own / event.file, f"{self._own_key}/{event.file}")
            elif isinstance(event, Checkpoint):
                self._send_checkpoint(event, self._own / "checkpoints")

    def _send_checkpoint(self, event: Checkpoint, folder: Path) -> None:
        for name in _files(event):
            self._artifacts.upload(folder / name, f"{self._own_key}/checkpoints/{name}")
        self._drop_all_but(len(list((self._own / "checkpoints").glob("step-*.json"))))
        output = self._job / f"{self._own.name}.log"
        if output.exists():
            self._artifacts.upload(output, f"{self._own_key}.log")

    def _drop_all_but(self, kept: int) -> None:
        """Remove all but the newest checkpoints at the address, as the trainer does here.

        Attempts after this one keep theirs: it may be one that was given up without its knowledge.
        """
        there = [key for key in self._artifacts.files(self._key) if attempt_of(key) <= self._number]
        newest = {key.removesuffix(".json") for key in statements(there)[:kept]}
        old = [
            key
            for key in there
            if key.rpartition(".")[0] not in newest
            and ("/checkpoints/" in key or 0 < attempt_of(key) < self._number)
        ]
        self._artifacts.delete(sorted(old, key=lambda key: not key.endswith(".json")))

    def _local(self, key: str) -> Path:
        return self._job / key.removeprefix(f"{self._key}/")

    def _patiently(self, act: Callable[[], None]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return act()
            except ArtifactsUnavailable as error:
                if self._stop() or time.monotonic() > deadline:
                    raise
                log.warning("%s; trying again", error)
                time.sleep(RETRY_SECONDS)


def _files(event: Checkpoint) -> tuple[str, str]:
    """Of a checkpoint: the weights, and the statement that is sent after them."""
    return event.file, event.file.removesuffix(".pt") + ".json"


def _clear_abandoned(jobs: Path) -> None:
    """Remove the folders of jobs below `jobs` that nobody has written to for long."""
    for folder in jobs.glob("*/*"):
        newest = max((file.stat().st_mtime for file in [folder, *folder.rglob("*")]), default=0.0)
        if time.time() - newest > ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)

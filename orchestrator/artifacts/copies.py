"""A job's files, which the trainer keeps on the node's own disk, and their copies at the artifacts' address.

A checkpoint is sent as soon as it is written: its weights, then the statement that names their hash. One
whose sending was cut off has no statement, or weights of another hash, and counts for nothing. The newest
whole one is fetched before a job goes on, wherever it ran before.
"""

import json
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from headcount.orchestrator.artifacts.address import Artifacts, ArtifactsUnavailable
from headcount.trainer.events import Artifact, Checkpoint, Event, Result
from headcount.trainer.job_files.files import has_hash

PATIENCE_SECONDS = 600.0
"""How long a job waits for an address that does not answer, before its first update and after its last."""

RETRY_SECONDS = 5.0

ABANDONED_SECONDS = 24 * 3600.0
"""After this a job's folder that a killed slot has left on the node's disk is removed."""

_STATEMENT = re.compile(r"/step-\d+\.json$")

log = logging.getLogger(__name__)


class JobCopies:
    """What one attempt fetches and sends."""

    def __init__(self, folder: Path, key: str, artifacts: Artifacts, stop: Callable[[], bool]) -> None:
        """`folder` is the job's on this node, `key` what its files lie under; `stop` ends all waiting."""
        self._folder, self._key, self._artifacts, self._stop = folder, key, artifacts, stop

    def fetch(self) -> None:
        """Bring the newest whole checkpoint here, unless a newer one is; of an ended job every file.

        Raises `ArtifactsUnavailable` where the address does not answer for `PATIENCE_SECONDS`.
        """
        _clear_abandoned(self._folder.parents[1])
        self._patiently(self._fetch)

    def sent(self, events: Iterable[Event]) -> Iterator[Event]:
        """The events of the job, each after its file was sent.

        A checkpoint that cannot be sent is told by nobody, and training goes on. The files of an ended job
        have to arrive: raises `ArtifactsUnavailable` as `fetch` does.
        """
        held: list[Event] = []
        for event in events:
            if isinstance(event, Artifact) or (isinstance(event, Checkpoint) and held):
                held.append(event)
            elif isinstance(event, Checkpoint):
                if self._checkpoint_is_sent(event):
                    yield event
            elif isinstance(event, Result):
                self._patiently(lambda: self._send_all(held))
                yield from held
                yield event
            else:
                yield event

    def end(self, output: Path, output_key: str) -> None:
        """Send what the job has printed; clear the node's disk unless its newest checkpoint is only here."""
        try:
            self._artifacts.upload(output, output_key)
            there = self._artifacts.files(f"{self._key}/checkpoints")
        except ArtifactsUnavailable as error:
            log.warning("%s", error)
            return
        newest = self._newest_here()
        if not newest or f"{self._key}/checkpoints/{newest}" in there:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _newest_here(self) -> str:
        """The name of the newest checkpoint's statement on this node; empty where there is none."""
        return max((file.name for file in self._folder.glob("checkpoints/step-*.json")), default="")

    def _fetch(self) -> None:
        self._artifacts.check()
        there = self._artifacts.files(self._key)
        here = self._newest_here()
        for statement in _statements(there):
            if Path(statement).name <= here or self._fetch_checkpoint(statement, there):
                return

    def _fetch_checkpoint(self, statement: str, there: Iterable[str]) -> bool:
        """Bring one checkpoint here; whether it is whole."""
        weights = statement.removesuffix(".json") + ".pt"
        content = self._artifacts.read(statement)
        try:
            sha256 = json.loads(content or b"")["sha256"]
        except (ValueError, KeyError, TypeError):
            return False
        if weights not in there:
            return False
        self._artifacts.download(weights, self._local(weights))
        if not has_hash(self._local(weights), sha256):
            log.warning("passing over %s/%s, which is damaged", self._artifacts.url, weights)
            self._local(weights).unlink()
            return False
        for key in there:  # an ended job's model and curves lie beside its checkpoints
            if "/" not in key.removeprefix(f"{self._key}/") and not key.endswith(".log"):
                self._artifacts.download(key, self._local(key))
        self._artifacts.download(statement, self._local(statement))
        return True

    def _checkpoint_is_sent(self, event: Checkpoint) -> bool:
        try:
            self._send_checkpoint(event)
        except ArtifactsUnavailable as error:
            log.warning("the checkpoint of step %d stays on this node: %s", event.step, error)
            return False
        return True

    def _send_all(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Artifact):
                self._artifacts.upload(self._folder / event.file, f"{self._key}/{event.file}")
            elif isinstance(event, Checkpoint):
                self._send_checkpoint(event)

    def _send_checkpoint(self, event: Checkpoint) -> None:
        folder = self._folder / "checkpoints"
        weights = folder / event.file
        for file in (weights, weights.with_suffix(".json")):
            self._artifacts.upload(file, f"{self._key}/checkpoints/{file.name}")
        self._drop_all_but(len(list(folder.glob("step-*.json"))))
        for output in self._folder.glob("attempt-*.log"):
            self._artifacts.upload(output, f"{self._key}/{output.name}")

    def _drop_all_but(self, kept: int) -> None:
        """Remove all but the newest checkpoints at the address, as the trainer does here."""
        there = self._artifacts.files(f"{self._key}/checkpoints")
        newest = {key.removesuffix(".json") for key in _statements(there)[:kept]}
        old = [key for key in there if key.rpartition(".")[0] not in newest]
        self._artifacts.delete(sorted(old, key=lambda key: not key.endswith(".json")))

    def _local(self, key: str) -> Path:
        return self._folder / key.removeprefix(f"{self._key}/")

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


def _statements(keys: Iterable[str]) -> list[str]:
    """Those of checkpoints, the newest first."""
    return sorted((key for key in keys if _STATEMENT.search(key)), reverse=True)


def _clear_abandoned(jobs: Path) -> None:
    """Remove the folders of jobs below `jobs` that nobody has written to for long."""
    for folder in jobs.glob("*/*"):
        newest = max((file.stat().st_mtime for file in [folder, *folder.rglob("*")]), default=0.0)
        if time.time() - newest > ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)

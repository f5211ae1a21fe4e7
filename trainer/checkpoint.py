"""Checkpoints: written whole or not at all, two kept, resumed from bit for bit.

A checkpoint is two files, `step-00000200.pt` and, written after it, `step-00000200.json`, which states whose
it is and the SHA-256 of the first. Neither counts without a matching other.
"""

import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import torch

from headcount.trainer.config import FIELDS, NUMERICS, JobConfig, effective_fields
from headcount.trainer.errors import UserError
from headcount.trainer.events import Checkpoint

KEPT = 2

log = logging.getLogger(__name__)


def identity(config: JobConfig, fingerprint: str) -> dict[str, Any]:
    """What a checkpoint must share with the job that goes on from it.

    Fields at their default are left out, so that a field which the package gains later changes nothing.
    """
    fields = effective_fields(config)
    return {
        **{name: value for name, value in fields.items() if value != FIELDS[name].default},
        "seed": config.seed,
        "data fingerprint": fingerprint,
        "numerics": NUMERICS,
    }


def save(folder: Path, step: int, state: dict[str, Any], owner: dict[str, Any]) -> Checkpoint:
    """Write the checkpoint of `step` and drop all but the newest two.

    Raises `UserError` where it cannot be written; nothing of it is left then, and older ones are.
    """
    weights, statement = folder / f"step-{step:08d}.pt", folder / f"step-{step:08d}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _atomically(weights) as file:
            torch.save(state, cast(IO[bytes], file))
        digest = file.hash.hexdigest()
        with _atomically(statement) as file:
            file.write(json.dumps({"step": step, "sha256": digest, "owner": owner}).encode())
        for old in _statements(folder)[KEPT:]:
            old.unlink()
            old.with_suffix(".pt").unlink(missing_ok=True)
    except OSError as error:
        with suppress(OSError):  # a folder that was never there has nothing to clear away
            if not statement.exists():
                weights.unlink()
        raise UserError(
            f"cannot write the checkpoint of step {step} in {folder}: {error.strerror}; "
            "free some space and start the job again"
        ) from error
    return Checkpoint(step=step, file=weights.name, sha256=digest)


def load_newest(folder: Path, owner: dict[str, Any]) -> dict[str, Any] | None:
    """The state of the newest whole checkpoint in `folder`, on the CPU; None where there is none.

    One that is torn or damaged is passed over for the one before. Raises `UserError` where the checkpoint is
    of another job.
    """
    _clear_remains(folder)
    for path in _statements(folder):
        try:
            statement = json.loads(path.read_text(encoding="utf-8"))
            weights = path.with_suffix(".pt")
            with open(weights, "rb") as file:
                whole = hashlib.file_digest(file, "sha256").hexdigest() == statement["sha256"]
        except (OSError, ValueError, KeyError, TypeError):
            whole = False
        if not whole:
            log.warning("passing over the checkpoint %s, which is damaged", path.with_suffix(".pt"))
            path.unlink()
            continue
        _check_owner(path, statement["owner"], owner)
        state: dict[str, Any] = torch.load(weights, map_location="cpu", weights_only=True)
        return state
    return None


def _clear_remains(folder: Path) -> None:
    """Remove what a writer that was killed left behind."""
    for beside in folder.glob(".step-*"):
        beside.unlink()
    for weights in folder.glob("step-*.pt"):
        if not weights.with_suffix(".json").exists():
            weights.unlink()


def _check_owner(path: Path, theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    ours = json.loads(json.dumps(ours))
    for name in sorted(theirs.keys() | ours.keys()):
        if theirs.get(name) != ours.get(name):
            raise UserError(
                f"{path.with_suffix('.pt')} is a checkpoint of another job: its {name} is "
                f"{theirs.get(name, 'the default')}, this job's is {ours.get(name, 'the default')}; "
                "choose another folder"
            )


def _statements(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob("step-*.json"), reverse=True)


class _HashedFile:
    """Takes what is written to it into a file and a hash. A failure is kept for `_atomically` to raise:
    PyTorch's writer, which runs in C++, must not be left by an exception."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb")  # noqa: SIM115
        self.hash = hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self._file.write(data)
                self.hash.update(data)
            except OSError as error:
                self.error = error
        return len(data)

    def flush(self) -> None:
        """Left to `close`."""

    def close(self) -> None:
        try:
            if self.error is None:
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            with suppress(OSError):  # a flush that failed above fails here again
                self._file.close()
        if self.error is not None:
            raise self.error


@contextmanager
def _atomically(path: Path) -> Iterator[_HashedFile]:
    """A file that appears under `path` when it is complete and on the disk; otherwise nothing does."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = _HashedFile(beside)
        try:
            yield file
        finally:
            file.close()
        beside.replace(path)
        _sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

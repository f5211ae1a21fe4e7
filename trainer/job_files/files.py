"""Files of a job, written whole or not at all, with their hash."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headcount.trainer.errors import UserError


class HashedFile:
    """Takes what is written to it into a file and a hash. A failure is kept for `whole_file` to raise:
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
def whole_file(path: Path) -> Iterator[HashedFile]:
    """A file that appears under `path` when it is complete and on the disk; otherwise nothing does."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file = HashedFile(beside)
        try:
            yield file
        finally:
            file.close()
        beside.replace(path)
        _sync_folder(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def has_hash(path: Path, sha256: str) -> bool:
    """Whether `path` is there and has this content."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    except OSError:
        return False


def unwritable(what: str, folder: Path, error: OSError) -> UserError:
    """The error for what cannot be written in a job's folder."""
    return UserError(
        f"cannot write {what} in {folder}: {error.strerror}; free some space and start the job again"
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

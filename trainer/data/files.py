"""Files under the home, written whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headcount.trainer.errors import UserError


def replace_text(path: Path, text: str) -> None:
    """Write `path` so that a reader finds the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def sync(*paths: Path) -> None:
    """Have the disk hold what was written to these files and folders."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def writing(home: Path) -> Iterator[None]:
    """Turns a failure to write under `home` into a `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot write the data set under {home}: {error.strerror}; free some space or set HEADCOUNT_HOME"
        ) from error

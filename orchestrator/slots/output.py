"""What a job prints, in a file of its own that cannot grow without bound."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST_BYTES = 2**20


class CappedOutput:
    """This process's output, written to a file until the file is full.

    The file descriptors themselves are turned, so that output of C code is caught too, and what was written
    stays when the process is killed. `check` has to be called now and then.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.full = False
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, text: str) -> None:
        os.write(self._file, text.encode(errors="replace"))

    def check(self) -> None:
        """Send what comes next nowhere once the file has reached `MOST_BYTES`."""
        if not self.full and os.fstat(self._file).st_size > MOST_BYTES:
            self.full = True
            self.write(f"\n[output beyond {MOST_BYTES} bytes is dropped]\n")
            nowhere = os.open(os.devnull, os.O_WRONLY)
            _turn(nowhere)
            os.close(nowhere)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Standard output and error go to the file; afterwards where they went before."""
        before = os.dup(1), os.dup(2)
        sys.stdout.flush()
        sys.stderr.flush()
        _turn(self._file)
        try:
            yield
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, saved in enumerate(before, 1):
                os.dup2(saved, number)
                os.close(saved)

    def close(self) -> None:
        os.close(self._file)


def _turn(target: int) -> None:
    os.dup2(target, 1)
    os.dup2(target, 2)

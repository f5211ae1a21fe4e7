"""Several processes that answer at one address, each with the whole application."""

import os
import signal
import sys
import time
from collections.abc import Callable
from tempfile import TemporaryDirectory
from types import FrameType

from prometheus_client.multiprocess import mark_process_dead

SHARED_FIGURES = "PROMETHEUS_MULTIPROC_DIR"
"""The variable of prometheus_client that names the folder in which several processes keep their figures."""

BACKOFF_SECONDS = 1.0
"""Before a worker that ended by itself is replaced."""


def run_workers(count: int, work: Callable[[], None]) -> None:
    """Run `work` in `count` processes until a signal to stop, and replace those that end by themselves.

    Call it before anything is open that processes cannot share: a store, or a thread.
    """
    stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        stopping = True
        for pid in pids:
            os.kill(pid, signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    pids: set[int] = set()
    figures = TemporaryDirectory(prefix="headcount-figures-")
    os.environ[SHARED_FIGURES] = figures.name
    try:
        while len(pids) < count:
            pids.add(_start(work))
        while pids:
            pid, _ = os.wait()
            mark_process_dead(pid)  # type: ignore[no-untyped-call]
            pids.discard(pid)
            if not stopping:
                time.sleep(BACKOFF_SECONDS)
                pids.add(_start(work))
    finally:
        del os.environ[SHARED_FIGURES]
        figures.cleanup()
        for number, handler in before.items():
            signal.signal(number, handler)


def _start(work: Callable[[], None]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    os.setpgid(0, 0)  # Ctrl+C reaches the parent alone, which passes it on
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)

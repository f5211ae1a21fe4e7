"""Several processes that answer at one address, each with the whole application."""

import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType

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
    try:
        while len(pids) < count:
            pids.add(_start(work))
        while pids:
            pid, _ = os.wait()
            pids.discard(pid)
            if not stopping:
                time.sleep(BACKOFF_SECONDS)
                pids.add(_start(work))
    finally:
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

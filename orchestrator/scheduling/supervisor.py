"""The scheduler that `headcount run` starts in a process of its own, and starts again when it dies.

Ray ends a process that has lost it, and prints where it likes: neither reaches the user's terminal this way.
The scheduler ends with the command: its standard input closes, however the command ends. While other commands
follow sweeps of the same home, one of them schedules next, and what runs goes on.
"""

import fcntl
import hashlib
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO

from headcount.orchestrator.scheduling.lease import current_holder
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, StoreUnavailable
from headcount.orchestrator.store.transitions import open_attempts
from headcount.trainer.errors import UserError

STOP_SECONDS = 90.0
LOOK_SECONDS = 0.2
SOON_SECONDS = 10.0
MOST_SOON = 5
"""Schedulers in a row that may end within `SOON_SECONDS` of their start."""


class Supervisor:
    """Sees to it that somebody schedules while the context lasts."""

    def __init__(self, settings: Settings, store: Store, ray_address: str | None) -> None:
        self._store = store
        self._command = [sys.executable, "-P", "-m", "headcount", "scheduler", "--attached"]
        if ray_address:
            self._command += ["--ray-address", ray_address]
        self.log = settings.home / "scheduler.log"
        self._followers: IO[bytes] = open(_followers_file(settings, ray_address), "ab")  # noqa: SIM115 (held)
        self._child: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._log_start = 0
        self._soon = 0

    def __enter__(self) -> "Supervisor":
        fcntl.flock(self._followers, fcntl.LOCK_SH)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.stop()
        finally:
            self._followers.close()

    @property
    def is_ours(self) -> bool:
        """Whether the scheduler at work is this one's, and not that of another command."""
        return self._child is not None

    def check(self) -> None:
        """Start a scheduler where none is at work. Raises `UserError` with why ours cannot work."""
        if self._child is not None:
            if self._child.poll() is None:
                return
            self._buried(self._child.returncode)
        if current_holder(self._store) is None:
            self._start()

    @property
    def is_alone(self) -> bool:
        """Whether no other command of this home follows a sweep of the same store on the same Ray."""
        try:
            fcntl.flock(self._followers, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._followers, fcntl.LOCK_SH)

    def stop(self) -> bool:
        """End our scheduler; whether another command's goes on.

        Where another command follows a sweep, that one's goes on with what runs. Otherwise running jobs write
        a checkpoint and go back to the queue.
        """
        if self._child is None or (not self.is_alone and self._slots_work() and self._hand_over()):
            return True
        if self._child is None:  # those that were to go on are gone too
            if not self._slots_work():
                return False
            self._start()
        self._await_lease()
        self._child.send_signal(signal.SIGTERM)
        self._await_end()
        return False

    def _hand_over(self) -> bool:
        """Leave the slots at work to another command's scheduler; whether there is one then."""
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._await_end()
        deadline = time.monotonic() + STOP_SECONDS
        while not self.is_alone and time.monotonic() < deadline:
            with suppress(StoreUnavailable):
                if current_holder(self._store) is not None:
                    return True
            time.sleep(LOOK_SECONDS)
        return False

    def _await_lease(self) -> None:
        """While slots work: a signal that comes before a scheduler heeds it would leave them at it."""
        assert self._child is not None
        with suppress(StoreUnavailable):
            while self._child.poll() is None and current_holder(self._store) is None and self._slots_work():
                time.sleep(LOOK_SECONDS)

    def _slots_work(self) -> bool:
        """Whether attempts are open, as far as the store answers."""
        try:
            with self._store.read() as session:
                return bool(open_attempts(session))
        except StoreUnavailable:
            return True

    def _await_end(self) -> None:
        assert self._child is not None
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._forget()

    def _start(self) -> None:
        with open(self.log, "ab") as output:
            self._log_start = output.tell()
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                cwd="/",
                start_new_session=True,  # Ctrl-C is for the command alone
            )
        self._started = time.monotonic()

    def _buried(self, code: int) -> None:
        """After our scheduler has ended by itself: start another, follow a stranger's, or give up."""
        lived = time.monotonic() - self._started
        words = _last_words(self.log, self._log_start)
        self._forget()
        if code == 2 and current_holder(self._store) is None:
            raise UserError(words or f"the scheduler refused to work; see {self.log}")
        self._soon = self._soon + 1 if lived < SOON_SECONDS else 0
        if self._soon >= MOST_SOON:
            raise RuntimeError(f"the scheduler has ended {self._soon} times; see {self.log}")

    def _forget(self) -> None:
        assert self._child is not None
        assert self._child.stdin is not None
        self._child.stdin.close()
        self._child = None


def _followers_file(settings: Settings, ray_address: str | None) -> Path:
    """What every command locks whose scheduler could adopt the slots of the others'."""
    named = f"{settings.database_url} {ray_address}"
    return settings.home / f"scheduler.{hashlib.sha256(named.encode()).hexdigest()[:16]}.followers"


def _last_words(log: Path, start: int) -> str:
    """The error that a scheduler ended with."""
    with open(log, "rb") as file:
        file.seek(start)
        text = file.read().decode(errors="replace")
    return text.rpartition("Error: ")[2].strip() if "Error: " in text else ""

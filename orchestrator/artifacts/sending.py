"""Sends checkpoints while training goes on."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from headcount.orchestrator.artifacts.address import ArtifactsUnavailable
from headcount.trainer.events import Checkpoint

RETRY_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Unsent:
    """The checkpoint of `step` is on this node alone as yet; it is tried again until a newer one is there."""

    step: int
    message: str


class Sender:
    """A thread that sends one checkpoint at a time. One that waits its turn gives way to a newer one."""

    def __init__(self, send: Callable[[Checkpoint], None]) -> None:
        """`send` returns once the checkpoint is there as a whole, and raises `ArtifactsUnavailable`."""
        self._send = send
        self._change = threading.Condition()
        self._waiting: Checkpoint | None = None
        self._is_sending = self._closed = False
        self._outcomes: list[Checkpoint | Unsent] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, checkpoint: Checkpoint) -> None:
        with self._change:
            self._waiting = checkpoint
            self._change.notify_all()

    def outcomes(self) -> list[Checkpoint | Unsent]:
        """What has become of checkpoints since the last call: each that is there, or could not be sent."""
        with self._change:
            told, self._outcomes = self._outcomes, []
        return told

    def finish(self, seconds: float) -> list[Checkpoint | Unsent]:
        """Wait until everything is sent, trying again for at most `seconds`; the last outcomes."""
        with self._change:
            self._change.wait_for(lambda: not self._is_sending and self._waiting is None, seconds)
            self._closed, self._waiting = True, None
            self._change.notify_all()
        self._thread.join()
        return self.outcomes()

    def _run(self) -> None:
        while True:
            with self._change:
                self._change.wait_for(lambda: self._waiting is not None or self._closed)
                if self._waiting is None:
                    return
                checkpoint, self._waiting, self._is_sending = self._waiting, None, True
            self._deliver(checkpoint)
            with self._change:
                self._is_sending = False
                self._change.notify_all()

    def _deliver(self, checkpoint: Checkpoint) -> None:
        """Send it, trying again until a newer one waits or no more is to be tried."""
        failed = False
        while True:
            try:
                self._send(checkpoint)
            except (ArtifactsUnavailable, OSError) as error:
                log.warning("the checkpoint of step %d stays on this node: %s", checkpoint.step, error)
                with self._change:
                    if not failed:
                        self._outcomes.append(Unsent(checkpoint.step, str(error)))
                        failed = True
                    if self._change.wait_for(lambda: self._waiting or self._closed, RETRY_SECONDS):
                        return
            else:
                with self._change:
                    self._outcomes.append(checkpoint)
                return

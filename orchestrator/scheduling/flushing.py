"""Waiting for the store's disk beside other work.

What slots told and what they get next is written without waiting for the disk, so that the next slots are
heard meanwhile. But nothing follows from a write before it is on the disk: a slot keeps what it has told, and
begins nothing. Should the store's server crash in between, its events are there to be told again and its next
job has not begun: nothing is lost, and nothing is trained twice. One wait is for all that was written before
it, by however many transactions.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.flusher import Flusher

Action = Callable[[], None]


class Flushing:
    """What is to be done once writes are on the disk, in their order."""

    def __init__(self, store: Store) -> None:
        self._flusher = None if store.file is not None else Flusher(store)
        """SQLite leaves to the kernel when a commit reaches the disk, and nobody waits."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="flush")
        self._under_way: Future[None] | None = None
        self._now: list[Action] = []
        """For the flush that is under way."""
        self._next: list[Action] = []
        """For one that has to begin after it."""

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return self._under_way is not None

    def prepare(self) -> None:
        """Before a write whose `then` is to follow. Raises `StoreUnavailable`."""
        if self._flusher is not None:
            self._flusher.open()

    def then(self, action: Action) -> None:
        """Do it once what was committed so far is on the disk: in a later `step`, or now on SQLite."""
        if self._flusher is None:
            action()
            return
        self._next.append(action)
        self._begin()

    def step(self, wait: bool) -> None:
        """Do what is due; with `wait`, what waits for the flush that is under way. Raises
        `StoreUnavailable`, after which nothing is known of what was written."""
        if self._under_way is None or not (wait or self._under_way.done()):
            return
        self._under_way.result()
        self._under_way, due, self._now = None, self._now, []
        self._begin()
        for action in due:
            action()

    def finish(self) -> None:
        """Do all that waits. Raises `StoreUnavailable`."""
        while self:
            self.step(wait=True)

    def forget(self) -> None:
        """Do nothing of what waits, after a write that may have met a crash."""
        self._leave()
        self._now.clear()
        self._next.clear()

    def close(self) -> None:
        self._leave()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _leave(self) -> None:
        if self._under_way is not None:
            wait([self._under_way])
        self._under_way = None
        if self._flusher is not None:
            self._flusher.close()

    def _begin(self) -> None:
        if self._flusher is not None and self._under_way is None and self._next:
            self._under_way = self._thread.submit(self._flusher.flush)
            self._now, self._next = self._next, []

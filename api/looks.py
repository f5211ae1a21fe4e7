"""Short questions to the store, such as who asks and which version a sweep has: many of them in one read."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store

T = TypeVar("T")


class _Look(Generic[T]):
    """A question and, in time, its answer or the error instead."""

    def __init__(self, question: Callable[[Session], T]) -> None:
        self.question = question
        self.done = False
        self._answer: T | None = None
        self._error: Exception | None = None

    def take(self, session: Session) -> None:
        try:
            self._answer = self.question(session)
        except DBAPIError:
            raise  # the store's, and so that of all who are read with it
        except Exception as error:
            self._error = error
        self.done = True

    def fail(self, error: Exception) -> None:
        self._error, self.done = error, True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return cast(T, self._answer)


class Looks:
    """Answers questions of a few rows each, off the event loop.

    Whoever asks while the store is read waits, and is answered from the next read together with all who wait:
    the more ask at a time, the less each costs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[_Look[Any]] = deque()
        self._turn = asyncio.Lock()
        self._thread = CapacityLimiter(1)

    async def ask(self, question: Callable[[Session], T]) -> T:
        """What `question` says of the store as it is after this call, or what it raises."""
        look = _Look(question)
        self._waiting.append(look)
        async with self._turn:
            if not look.done:
                await to_thread.run_sync(self._read, limiter=self._thread)
        return look.result()

    def _read(self) -> None:
        """Answer those that wait now: who comes later must not be told of a state before."""
        looks = [self._waiting.popleft() for _ in range(len(self._waiting))]
        try:
            with self._store.read() as session:
                for look in looks:
                    look.take(session)
        except Exception as error:
            for look in looks:
                if not look.done:
                    look.fail(error)

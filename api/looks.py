"""Short questions to the store, such as who asks and which version a sweep has: many of them in one go."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store

T = TypeVar("T")

Question = Callable[[Session], T]
"""Of a few rows at most; what equals it is the same question, and has the same answer."""


class Look(Generic[T]):
    """A question and, in time, its answer or the error instead."""

    def __init__(self, question: Question[T]) -> None:
        self.question = question
        self.done = False
        self._answer: T | None = None
        self._error: Exception | None = None

    def tell(self, answer: T) -> None:
        self._answer, self.done = answer, True

    def fail(self, error: Exception) -> None:
        self._error, self.done = error, True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return cast(T, self._answer)


class Looks:
    """Answers questions off the event loop.

    Whoever asks while others are answered waits, and is answered next, together with all who wait; what
    several ask is asked of the store once: the more ask at a time, the less each costs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: deque[Look[Any]] = deque()
        self._turn = asyncio.Lock()
        self._thread = CapacityLimiter(1)

    def put(self, question: Question[T]) -> Look[T]:
        """To be answered with what is asked next, or when the answer is taken."""
        look = Look(question)
        self._waiting.append(look)
        return look

    async def take(self, look: Look[T]) -> T:
        """What the question says of the store as it is after it was put, or what it raises."""
        if not look.done:
            async with self._turn:
                if not look.done:
                    await to_thread.run_sync(self._read, limiter=self._thread)
        return look.result()

    async def ask(self, question: Question[T]) -> T:
        """What `question` says of the store as it is after this call, or what it raises."""
        return await self.take(self.put(question))

    def _read(self) -> None:
        """Answer those that wait now: who comes later must not be told of a state before."""
        looks: dict[Question[Any], list[Look[Any]]] = {}
        while self._waiting:
            look = self._waiting.popleft()
            looks.setdefault(look.question, []).append(look)
        try:
            with self._store.look() as session:
                for question, alike in looks.items():
                    _answer(session, question, alike)
        except Exception as error:
            for look in (look for alike in looks.values() for look in alike if not look.done):
                look.fail(error)


def _answer(session: Session, question: Question[Any], looks: Sequence[Look[Any]]) -> None:
    try:
        answer = question(session)
    except DBAPIError:
        raise  # the store's, and so that of all who are answered with it
    except Exception as error:
        for look in looks:
            look.fail(error)
    else:
        for look in looks:
            look.tell(answer)

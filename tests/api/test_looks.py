"""Short questions of many are answered in one go, each of the store as it is when it is asked."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from builders import build_sweep
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from headcount.api.looks import Looks
from headcount.api.results import NotFoundError, results_version
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Sweep


class Counted(Store):
    """A store that counts how often it is looked at, and lets no look begin before it is told to."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.engine)
        self.looks = 0
        self.begin = threading.Event()

    @contextmanager
    def look(self) -> Iterator[Session]:
        self.looks += 1
        with super().look() as session:
            assert self.begin.wait(10)
            yield session


@pytest.fixture
def counted(store: Store) -> Counted:
    with store.write() as session:
        build_sweep(session, heads=(1,), kv_heads=(1,), curves=False)
    return Counted(store)


def version(session: Session) -> str:
    return results_version(session, "head-count")


def test_who_waits_while_others_are_answered_is_answered_next(counted: Counted) -> None:
    async def ask() -> list[str]:
        looks = Looks(counted)
        first = asyncio.create_task(looks.ask(version))
        while not counted.looks:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(looks.ask(version)) for _ in range(100)]
        await asyncio.sleep(0.01)
        counted.begin.set()
        return await asyncio.gather(first, *others)

    assert len(set(asyncio.run(ask()))) == 1
    assert counted.looks == 2


def test_what_several_ask_is_asked_of_the_store_once(counted: Counted) -> None:
    counted.begin.set()
    asked: list[Session] = []

    @dataclass(frozen=True)
    class Asks:
        sweep: str

        def __call__(self, session: Session) -> str:
            asked.append(session)
            return results_version(session, self.sweep)

    async def ask() -> list[str]:
        looks = Looks(counted)
        early = looks.put(Asks("head-count"))
        alike = [looks.ask(Asks("head-count")) for _ in range(10)]
        return [*await asyncio.gather(*alike), await looks.take(early)]

    assert len(set(asyncio.run(ask()))) == 1
    assert len(asked) == counted.looks == 1


def test_a_question_that_was_put_is_answered_with_the_next(counted: Counted) -> None:
    counted.begin.set()

    async def ask() -> tuple[str, str]:
        looks = Looks(counted)
        early = looks.put(version)
        assert await looks.ask(lambda session: "another") == "another"
        with counted.write() as session:
            session.execute(update(Sweep).values(results_version=Sweep.results_version + 1))
        return await looks.take(early), await looks.ask(version)

    early, later = asyncio.run(ask())
    assert early != later
    assert counted.looks == 2


def test_an_answer_is_of_what_was_committed_before_its_question(counted: Counted) -> None:
    """Even where others read meanwhile, whose transaction began before."""

    async def ask() -> tuple[str, str]:
        looks = Looks(counted)
        first = asyncio.create_task(looks.ask(version))
        while not counted.looks:
            await asyncio.sleep(0.001)
        with counted.write() as session:
            session.execute(update(Sweep).values(results_version=Sweep.results_version + 41))
        second = asyncio.create_task(looks.ask(version))
        await asyncio.sleep(0.01)
        counted.begin.set()
        return await first, await second

    _, second = asyncio.run(ask())
    with counted.read() as session:
        assert second == version(session)


def test_each_is_told_of_their_own_error_alone(counted: Counted) -> None:
    counted.begin.set()

    async def ask() -> list[object]:
        looks = Looks(counted)
        missing = looks.ask(lambda session: results_version(session, "missing"))
        return await asyncio.gather(looks.ask(version), missing, looks.ask(version), return_exceptions=True)

    first, error, last = asyncio.run(ask())
    assert isinstance(first, str)
    assert first == last
    assert isinstance(error, NotFoundError)


def test_a_store_that_fails_fails_all_who_were_answered_with_it_and_nobody_later(counted: Counted) -> None:
    counted.begin.set()

    async def ask() -> tuple[list[object], str]:
        looks = Looks(counted)
        broken = looks.ask(lambda session: session.execute(text("SELECT nonsense FROM nowhere")))
        both = await asyncio.gather(broken, looks.ask(version), return_exceptions=True)
        return both, await looks.ask(version)

    both, later = asyncio.run(ask())
    assert isinstance(both[0], Exception)
    assert isinstance(later, str)


def test_who_leaves_takes_no_answer_from_others(counted: Counted) -> None:
    async def ask() -> str:
        looks = Looks(counted)
        first = asyncio.create_task(looks.ask(version))
        while not counted.looks:
            await asyncio.sleep(0.001)
        leaving, staying = (asyncio.create_task(looks.ask(version)) for _ in range(2))
        await asyncio.sleep(0.01)
        leaving.cancel()
        counted.begin.set()
        await first
        return await staying

    assert asyncio.run(ask())

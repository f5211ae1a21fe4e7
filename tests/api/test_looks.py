"""Short questions of many are answered from one read, each of the store as it is when it is asked."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from builders import build_sweep
from sqlalchemy import text, update
from sqlalchemy.orm import Session

from headcount.api.looks import Looks
from headcount.api.results import NotFoundError, results_version
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Sweep


class Counted(Store):
    """A store that counts its reads, and lets none begin before it is told to."""

    def __init__(self, store: Store) -> None:
        super().__init__(store.engine)
        self.reads = 0
        self.begin = threading.Event()

    @contextmanager
    def read(self) -> Iterator[Session]:
        self.reads += 1
        with super().read() as session:
            assert self.begin.wait(10)
            yield session


@pytest.fixture
def counted(store: Store) -> Counted:
    with store.write() as session:
        build_sweep(session, heads=(1,), kv_heads=(1,), curves=False)
    return Counted(store)


def version(session: Session) -> str:
    return results_version(session, "head-count")


def test_who_waits_while_others_read_is_answered_from_the_next_read(counted: Counted) -> None:
    async def ask() -> list[str]:
        looks = Looks(counted)
        first = asyncio.create_task(looks.ask(version))
        while not counted.reads:
            await asyncio.sleep(0.001)
        others = [asyncio.create_task(looks.ask(version)) for _ in range(100)]
        await asyncio.sleep(0.01)
        counted.begin.set()
        return await asyncio.gather(first, *others)

    assert len(set(asyncio.run(ask()))) == 1
    assert counted.reads == 2


def test_an_answer_is_of_what_was_committed_before_its_question(counted: Counted) -> None:
    """Even where others read meanwhile, whose transaction began before."""

    async def ask() -> tuple[str, str]:
        looks = Looks(counted)
        first = asyncio.create_task(looks.ask(version))
        while not counted.reads:
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


def test_a_store_that_fails_fails_all_who_were_read_with_it_and_nobody_later(counted: Counted) -> None:
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
        while not counted.reads:
            await asyncio.sleep(0.001)
        leaving, staying = (asyncio.create_task(looks.ask(version)) for _ in range(2))
        await asyncio.sleep(0.01)
        leaving.cancel()
        counted.begin.set()
        await first
        return await staying

    assert asyncio.run(ask())

"""An answer is made once for all who ask at a time, and never from data older than their question."""

import asyncio
import threading
import time

from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import update

from headcount.api import answering
from headcount.api.answering import MOST_KEPT, Answers, Body, Kept, Tables, Wish
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Sweep


class Data:
    """Data whose version others raise, and the making of an answer that takes its time."""

    def __init__(self) -> None:
        self.version = 0
        self.made = 0

    def make(self, wish: Wish) -> Kept[Body]:
        begun, version = next(answering._CLOCK), str(self.version)
        self.made += 1
        time.sleep(0.05)
        return Kept(version, begun, Body(version.encode()))


def test_two_hundred_who_ask_for_a_new_version_share_one_answer() -> None:
    data, answers = Data(), Answers()

    async def ask() -> list[bytes]:
        found = await asyncio.gather(*(answers.get("q", "0", data.make) for _ in range(200)))
        return [kept.value.content for kept in found]

    assert asyncio.run(ask()) == [b"0"] * 200
    assert data.made == 1


def test_while_versions_rise_all_who_wait_share_the_next_answer() -> None:
    data, answers = Data(), Answers()

    async def one() -> bool:
        seen = data.version = data.version + 1  # each sees a version of its own
        kept = await answers.get("q", str(seen), data.make)
        return int(kept.version) >= seen

    async def ask() -> list[bool]:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(one())
            await asyncio.sleep(0.02)  # the first is being made
            others = [group.create_task(one()) for _ in range(100)]
        return [task.result() for task in (first, *others)]

    assert all(asyncio.run(ask()))
    assert data.made == 2


def test_a_question_that_fails_is_asked_again_and_old_answers_make_room() -> None:
    data, answers = Data(), Answers()

    def fail(wish: Wish) -> Kept[Body]:
        raise ValueError("no")

    async def ask() -> None:
        for _ in range(2):
            try:
                await answers.get("q", "0", fail)
            except ValueError:
                continue
            raise AssertionError
        assert (await answers.get("q", "0", data.make)).version == "0"
        for number in range(MOST_KEPT + 10):
            await answers.get(str(number), "0", lambda wish: Kept("0", 0, Body(b"x")))
        assert len(answers._places) == MOST_KEPT
        assert answers._bytes == sum(len(p.kept.value.content) for p in answers._places.values() if p.kept)

    asyncio.run(ask())


def test_one_read_of_a_sweep_serves_all_its_tables(store: Store) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 8), kv_heads=(1,), curves=False)
    tables, found = Tables(), []

    def read() -> None:
        found.append(tables.get(store, "head-count", False, Wish("", arrived)))

    arrived = next(answering._CLOCK)
    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(kept.value) for kept in found} == {id(found[0].value)}
    later = tables.get(store, "head-count", False, Wish("", next(answering._CLOCK)))
    assert later.value == found[0].value
    assert later.value is not found[0].value


def test_an_answer_is_of_the_data_as_it_is_when_it_is_asked_for(store: Store, client: TestClient) -> None:
    with store.write() as session:
        sweep = build_sweep(session, heads=(1, 8), kv_heads=(1,), curves=False)
    path = "/api/v1/sweeps/head-count/table.json"
    first = client.get(path)
    assert client.get(path, headers={"If-None-Match": first.headers["etag"]}).status_code == 304
    with store.write() as session:
        session.execute(update(Sweep).where(Sweep.id == sweep).values(results_version=99))
    second = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (second.status_code, second.json()["version"]) == (200, 99)
    assert second.headers["etag"] != first.headers["etag"]

"""Rings of objects go while nobody waits for an answer, and only then."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from headcount.api import collecting


@pytest.fixture(autouse=True)
def _collector_as_it_was() -> Iterator[None]:
    threshold = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*threshold)


class Ring:
    def __init__(self) -> None:
        self.itself = self


def _ring() -> weakref.ref[Ring]:
    return weakref.ref(Ring())


def test_rings_stay_amid_an_answer_and_go_after_it() -> None:
    collecting.begin()
    ring = _ring()
    made = [{"amid": "an answer"} for _ in range(50_000)]
    assert ring() is not None
    collecting.collect()
    assert ring() is None
    assert len(made) == 50_000


def test_after_many_rounds_what_lasted_longer_is_looked_through_too() -> None:
    collecting.begin()
    ring = _ring()
    holder = [ring()]

    collecting.collect()  # the ring is no longer new
    holder.clear()
    collecting.collect()
    assert ring() is not None
    for _ in range(collecting.ROUNDS):
        collecting.collect()
    assert ring() is None

"""What is told of nodes whose warden keeps silent, on a cluster that only lets time pass."""

import math
from typing import Any

import pytest

from headcount import __version__
from headcount.orchestrator.bench.stand_in import NODE, Answer, Remote, SleepingWarden, StandIn
from headcount.orchestrator.cluster import nodes as nodes_module
from headcount.orchestrator.cluster.card_memory import CardUse, GiB
from headcount.orchestrator.cluster.connection import NodeFacts
from headcount.orchestrator.cluster.nodes import Nodes
from headcount.orchestrator.cluster.warden import Report
from headcount.trainer.config import NUMERICS

OTHER = "cd" * 28


class TwoNodes(StandIn):
    """The warden of the second never answers, or no more after its first answer."""

    def __init__(self, answers: int) -> None:
        super().__init__(slots=1, job_seconds=0.0)
        self.is_local = False
        self._answers = answers

    def nodes(self) -> dict[str, NodeFacts]:
        return {NODE: NodeFacts("here", 1, 0, None), OTHER: NodeFacts("there", 1, 0, None)}

    def warden(self, node: str) -> Any:
        warden: Any = SleepingWarden()
        if node == OTHER:
            heard = warden.report.remote

            def report(pids: list[int], marks: list[str]) -> Answer | None:
                self._answers -= 1
                return heard(pids, marks) if self._answers >= 0 else Answer(math.inf, None)

            warden.report = Remote(report)
        return warden


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that the nodes see; the stand-in has its own."""
    now = [1000.0]

    class Time:
        monotonic = staticmethod(lambda: now[0])

    monkeypatch.setattr(nodes_module, "time", Time)
    return now


def looked(answers: int, clock: list[float], seconds: int) -> Nodes:
    nodes = Nodes(TwoNodes(answers))
    for _ in range(seconds):
        nodes.refresh({})
        clock[0] += 1.0
    return nodes


def test_a_warden_that_never_answers_gives_a_notice_that_names_the_node(clock: list[float]) -> None:
    early = looked(0, clock, 20)
    assert early.notices([]) == {}
    assert not early.all_heard
    late = looked(0, clock, 40)
    assert late.all_heard
    assert [device.node for device in late.devices([])] == [NODE]
    [(subject, words)] = late.notices([]).items()
    assert subject == "node there/cdcdcdcd"
    assert words.startswith("gets no slots: the warden that looks at it has not answered yet")


def test_a_node_whose_warden_falls_silent_keeps_its_slots_and_is_told_of(clock: list[float]) -> None:
    nodes = looked(2, clock, 50)
    assert {device.node for device in nodes.devices([])} == {NODE, OTHER}
    [(subject, words)] = nodes.notices([]).items()
    assert subject == "node there/cdcdcdcd"
    assert words.startswith("does not answer: its warden says nothing any more")


class TwoCards(StandIn):
    """A node whose Ray was given the cards 3 and 1 of its machine."""

    def nodes(self) -> dict[str, NodeFacts]:
        return {NODE: NodeFacts("here", 2, 2, None)}

    def warden(self, node: str) -> Any:
        cards = tuple(CardUse(index, 80 * GiB, (40 if index in (0, 1) else 0) * GiB) for index in range(4))
        report = Report("here", __version__, NUMERICS, (), {}, cards, visible=(3, 1))
        warden: Any = SleepingWarden()
        warden.report = Remote(lambda pids, marks: Answer(0.0, report))
        return warden


def test_cards_have_the_machine_s_numbers_and_those_that_are_not_the_node_s_are_let_be(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = TwoCards(slots=2, job_seconds=0.0)
    nodes = Nodes(cluster)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    nodes.refresh({})
    assert [device.index for device in nodes.devices([])] == [1, 2], (
        "as the scheduler is told, before the warden"
    )
    cluster.is_local = False
    for _ in range(6):
        clock[0] += 1.0
        nodes.refresh({})
    assert [(device.index, device.room) for device in nodes.devices([])] == [(3, 1.0), (1, 0.5)]
    assert list(nodes.notices([])) == ["card 1 of here/" + NODE[:8]]

"""Where jobs go, on clusters that are only described."""

import pytest

from headcount.orchestrator.scheduling.demand import Demand, beyond_maximum, demand
from headcount.orchestrator.scheduling.packing import GiB, jobs_on_a_card, share_on
from headcount.orchestrator.scheduling.placement import PROCESSORS, Decisions, Device, Held, Making, place
from headcount.orchestrator.scheduling.turns import Need, Turn

WHOLE, HALF, QUARTER = Need(share=1.0), Need(share=0.5), Need(share=0.25)


def jobs(need: Need, count: int, priority: int = 0, name: str = "j") -> list[Turn]:
    return [Turn(f"{name}{n}", 1, "ada", priority, need) for n in range(count)]


def cards(count: int, node: str = "a", **more: object) -> list[Device]:
    return [Device(node, index, **more) for index in range(count)]  # type: ignore[arg-type]


def put(turns: list[Turn], devices: list[Device], slots: tuple[Held, ...] = ()) -> Decisions:
    return place(turns, devices, slots, lambda turn, device: share_on(turn, device, {}), 100)


def names(turns: list[Turn]) -> list[str]:
    return [turn.job_id for turn in turns]


def test_a_slot_is_made_for_each_job_that_there_is_room_for() -> None:
    done = put(jobs(WHOLE, 3), cards(2))
    assert done.make == [Making("a", (("a", 0),), 1.0), Making("a", (("a", 1),), 1.0)]
    assert names(done.wait) == ["j2"]


def test_jobs_on_processors_are_spread_over_the_nodes() -> None:
    nodes = [Device("a", PROCESSORS, 2.0), Device("b", PROCESSORS, 2.0)]
    done = put(jobs(WHOLE, 5), nodes)
    assert sorted(making.node for making in done.make) == ["a", "a", "b", "b"]
    assert [making.node for making in done.make[:2]] == ["a", "b"]
    assert names(done.wait) == ["j4"]


def test_free_slots_are_given_in_the_order_of_turns_and_starting_ones_are_waited_for() -> None:
    slots = (Held("s", (("a", 0),), 1.0, starting=True), Held("f", (("a", 1),), 1.0, free=True))
    done = put(jobs(WHOLE, 3), cards(2), slots)
    assert [(name, turn.job_id) for name, turn in done.give] == [("f", "j1")]
    assert (done.make, names(done.wait)) == ([], ["j2"])


def test_small_jobs_fill_one_card_before_the_next() -> None:
    done = put(jobs(QUARTER, 6), cards(2))
    assert [making.cards[0][1] for making in done.make] == [0, 0, 0, 0, 1, 1]


def test_a_share_that_does_not_go_into_one_is_rounded_to_one_that_does() -> None:
    assert len(put(jobs(Need(share=0.3), 9), cards(1)).make) == 3
    assert len(put(jobs(Need(share=0.15), 60), cards(8)).make) == 48  # six a card, not 53 in all


def test_small_jobs_are_not_blocked_behind_a_big_one() -> None:
    busy = (Held("b", (("a", 0),), 0.5), Held("c", (("a", 1),), 0.5))
    done = put([*jobs(WHOLE, 1, name="big"), *jobs(HALF, 2, name="small")], cards(2), busy)
    assert names(done.wait) == ["big0", "small1"]
    assert [making.cards for making in done.make] == [(("a", 1),)]  # card 0 is kept for the big one


def test_a_big_job_gets_its_card_when_the_small_ones_on_it_have_ended() -> None:
    waiting = [*jobs(WHOLE, 1, name="big"), *jobs(HALF, 5, name="small")]
    still = (Held("b", (("a", 0),), 0.5), Held("free", (("a", 0),), 0.5, free=True))
    done = put(waiting, cards(1), still)
    assert (done.give, done.make, done.leave) == ([], [], [])
    ended = (Held("b", (("a", 0),), 0.5, free=True), still[1])
    done = put(waiting, cards(1), ended)
    assert sorted(done.leave) == ["b", "free"]
    assert done.make == [Making("a", (("a", 0),), 1.0)]


def test_lower_priority_takes_no_card_that_higher_waits_for() -> None:
    """No inversion: small jobs of low priority would else hold every card against whole-card jobs."""
    busy = tuple(Held(f"b{i}", (("a", i),), 0.5) for i in range(3))
    urgent, rest = jobs(WHOLE, 2, priority=5, name="urgent"), jobs(HALF, 3, name="low")
    done = put([*urgent, *rest], cards(3), busy)
    assert names(done.wait) == ["urgent0", "urgent1", "low1", "low2"]
    assert len(done.make) == 1  # the third card is not waited for


def test_among_equals_one_big_job_at_a_time_keeps_a_card() -> None:
    busy = tuple(Held(f"b{i}", (("a", i),), 0.5) for i in range(3))
    done = put([*jobs(WHOLE, 9, name="big"), *jobs(HALF, 2, name="small")], cards(3), busy)
    assert len(done.make) == 2


def test_cards_are_chosen_by_their_kind() -> None:
    devices = [*cards(1, "a", accelerator="A100"), *cards(1, "h", accelerator="H200")]
    done = put(jobs(Need(accelerator="H200"), 2), devices)
    assert [making.node for making in done.make] == ["h"]
    assert names(put(jobs(Need(accelerator="B200"), 1), devices).nowhere) == ["j0"]


def test_a_job_of_several_cards_takes_them_on_one_node() -> None:
    devices = [*cards(2, "a"), *cards(4, "b")]
    busy = (Held("x", (("a", 0),), 1.0),)
    done = put(jobs(Need(gpus=2), 3), devices, busy)
    assert [making.node for making in done.make] == ["b", "b"]
    assert names(done.wait) == ["j2"]
    assert names(put(jobs(Need(gpus=5), 1), devices).nowhere) == ["j0"]


def test_a_card_that_strangers_hold_takes_what_fits_beside_them() -> None:
    devices = [Device("a", 0, room=0.5), Device("a", 1, room=0.0)]
    assert names(put(jobs(WHOLE, 1), devices).nowhere) == ["j0"]
    assert len(put(jobs(QUARTER, 3), devices).make) == 2


@pytest.mark.parametrize(
    ("peak", "memory", "fit"),
    [
        (None, 80, 1),  # nothing recorded yet
        (10, 0, 1),  # a card whose size is not known
        (79, 80, 1),
        (37, 80, 2),
        (37.1, 80, 1),
        (18, 80, 4),
        (3, 80, 8),
        (0.1, 8, 4),
        (0.1, 80, 8),  # no more than eight
    ],
)
def test_as_many_jobs_share_a_card_as_its_memory_holds(peak: float | None, memory: float, fit: int) -> None:
    assert jobs_on_a_card(None if peak is None else peak * GiB, memory * GiB) == fit


def test_the_share_is_by_the_kind_of_job_and_by_the_card() -> None:
    need, peaks = Need(share=None, kind="like this"), {"like this": 9.0 * GiB}
    [turn] = jobs(need, 1)
    assert share_on(turn, Device("a", 0, memory=80 * GiB), peaks) == 0.25
    assert share_on(turn, Device("a", 0, memory=16 * GiB), peaks) == 1.0
    assert share_on(turn, Device("a", 0, memory=80 * GiB), {}) == 1.0


def test_the_cluster_is_asked_for_what_works_and_what_waits() -> None:
    busy = (Held("b", (("a", 0),), 0.25),)
    asked = demand(jobs(Need(share=None, accelerator="H200"), 2), busy, with_gpus=True)
    assert asked.as_request() == {
        "bundles": [{"GPU": 0.25}, {"GPU": 1.0}, {"GPU": 1.0}],
        "bundle_label_selectors": [{}, *[{"ray.io/accelerator-type": "H200"}] * 2],
    }
    assert demand(jobs(WHOLE, 1), (), with_gpus=False).as_request() == {"bundles": [{"CPU": 1.0}]}
    assert demand([], (), with_gpus=True).as_request() == {"num_cpus": 0}  # Ray's word for nothing
    assert Demand() == demand([], (), with_gpus=True)
    assert len(demand(jobs(WHOLE, 5000), (), with_gpus=True).bundles) == 1000


def test_only_what_is_beyond_the_declared_maximum_is_refused() -> None:
    [turn] = jobs(Need(gpus=8), 1)
    assert beyond_maximum(turn, None, with_gpus=True) is None
    assert beyond_maximum(turn, {"GPU": 8.0}, with_gpus=True) is None
    words = beyond_maximum(turn, {"GPU": 4.0}, with_gpus=True)
    assert words == "it needs 8 GPUs on one node, and no node of the cluster may have more than 4"


def test_a_job_that_is_to_be_alone_waits_for_a_whole_node_or_card() -> None:
    alone = Need(alone=True)
    node = [Device("a", PROCESSORS, 2.0)]
    busy = [Held("s", (("a", PROCESSORS),), 1.0)]
    waits = put(jobs(alone, 1), node, busy)
    assert (names(waits.wait), waits.make) == (["j0"], [])
    [made] = put(jobs(alone, 1), node).make
    assert made.share == 2.0
    assert share_on(jobs(Need(share=0.25, alone=True), 1)[0], Device("a", 0, memory=80 * GiB), {}) == 1.0

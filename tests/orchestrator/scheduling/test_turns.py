"""The order of turns: priority, owners, sweeps, position; and what it costs."""

import itertools
import sys

from headcount.orchestrator.scheduling.turns import Lane, Need, Turn, Waiting, arrange
from headcount.sweeps.forecasting.allowance import Allowance


def lane(sweep: int, jobs: int, owner: str = "ada", priority: int = 0, prefix: str = "") -> Lane:
    names = [f"{prefix or sweep}-{n}" for n in range(jobs)]
    return Lane(sweep, owner, priority, Need(), [Waiting(n, name, 1.0) for n, name in enumerate(names)])


def order(lanes: list[Lane], **given: object) -> list[str]:
    return [turn.job_id for turn in turns(lanes, **given)]


def turns(lanes: list[Lane], **given: object) -> list[Turn]:
    waiting = {job.job_id for lane in lanes for job in lane.jobs}
    state: dict[str, object] = {"waiting": waiting, "load": {}, "rooms": {}, "allowed": {}, "wanted_by": {}}
    return list(arrange(lanes, **(state | given)))  # type: ignore[arg-type]


def test_higher_priority_first_then_first_submitted_then_position() -> None:
    lanes = [lane(2, 2), lane(3, 2, priority=5), lane(1, 2)]
    assert order(lanes) == ["3-0", "3-1", "1-0", "1-1", "2-0", "2-1"]


def test_equals_share_between_owners_by_what_they_have_at_work() -> None:
    lanes = [lane(1, 4, "ada"), lane(2, 3, "bob")]
    assert order(lanes) == ["1-0", "2-0", "1-1", "2-1", "1-2", "2-2", "1-3"]
    assert order(lanes, load={"ada": 2.0}) == ["2-0", "2-1", "1-0", "2-2", "1-1", "1-2", "1-3"]


def test_sharing_never_puts_lower_priority_first() -> None:
    lanes = [lane(1, 2, "ada", priority=1), lane(2, 1, "bob")]
    assert order(lanes, load={"ada": 100.0}) == ["1-0", "1-1", "2-0"]


def test_a_job_of_two_sweeps_has_one_turn_and_counts_for_both() -> None:
    lanes = [lane(1, 2, prefix="x"), lane(2, 2, prefix="x"), lane(3, 1)]
    both = {"x-0": [1, 2], "x-1": [1, 2]}
    assert order(lanes, wanted_by=both) == ["x-0", "x-1", "3-0"]
    assert order(lanes, wanted_by=both, rooms={1: 1, 2: 1}) == ["x-0", "3-0"]
    assert order(lanes, wanted_by=both, rooms={1: 0}) == ["x-0", "x-1", "3-0"]  # in the other's name


def test_a_sweep_gives_no_more_than_its_room_and_its_budget() -> None:
    lanes = [lane(1, 3), lane(2, 1)]
    assert order(lanes, rooms={1: 2}) == ["1-0", "1-1", "2-0"]
    assert order(lanes, allowed={1: Allowance(each=1.0, together=1.5)}) == ["1-0", "2-0"]


def test_a_smaller_job_behind_one_that_the_budget_does_not_hold_has_its_turn() -> None:
    jobs = [Waiting(0, "big", 5.0), Waiting(1, "small", 1.0)]
    assert order([Lane(1, "ada", 0, Need(), jobs)], allowed={1: Allowance(2.0, 2.0)}) == ["small"]


def test_a_job_that_comes_back_has_its_old_place() -> None:
    came = lane(1, 4)
    waiting = {"1-1", "1-2", "1-3"}
    assert order([came], waiting=waiting) == ["1-1", "1-2", "1-3"]
    assert came.first == 1
    came.add(Waiting(0, "1-0", 1.0))
    assert order([came], waiting=waiting | {"1-0"}) == ["1-0", "1-1", "1-2", "1-3"]
    assert len(came.jobs) == 4


def test_a_turn_costs_the_same_with_ten_thousand_jobs_as_with_ten() -> None:
    """Counted in lines of Python that run, not in time."""
    costs = []
    for jobs in (10, 10_000):
        lanes = [lane(1, jobs), lane(2, jobs, "bob")]
        waiting = {job.job_id for lane in lanes for job in lane.jobs}
        ordered = arrange(lanes, waiting, load={}, rooms={}, allowed={}, wanted_by={})
        costs.append(_lines_of(lambda ordered=ordered: list(itertools.islice(ordered, 5))))
    assert costs[0] == costs[1] > 0


def _lines_of(call) -> int:  # type: ignore[no-untyped-def]
    count = 0

    def trace(frame, event, argument):  # type: ignore[no-untyped-def]
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count

"""What a budget and an end let a sweep begin."""

from math import inf

import pytest

from headcount.sweeps.forecasting.allowance import Allowance, allowance


def test_a_job_begins_when_it_ends_in_time_and_the_budget_holds_it() -> None:
    allowed = allowance(10.0, running=3, seconds=5, slot_seconds=12)
    assert allowed == Allowance(each=50, together=120)
    assert allowed.admits(50)
    assert not allowed.admits(51)
    after = allowed.less(50).less(50)
    assert after.admits(20)
    assert not after.admits(21)


@pytest.mark.parametrize("bound", [{"seconds": 0}, {"slot_seconds": -1}, {"seconds": 9, "slot_seconds": 0}])
def test_nothing_begins_after_the_end(bound: dict[str, float]) -> None:
    for rate in (None, 1e12):
        assert not allowance(rate, running=0, **bound).admits(0)


def test_an_unknown_rate_is_measured_by_one_job_first() -> None:
    first = allowance(None, running=0, slot_seconds=60)
    assert first.admits(1e30)
    assert not first.less(1e30).admits(1)
    assert not allowance(None, running=1, slot_seconds=60).admits(1)


def test_no_bound_is_none() -> None:
    assert allowance(10.0, running=3) == Allowance(inf, inf, inf)

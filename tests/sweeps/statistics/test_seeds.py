"""Stein's rule: its arithmetic, and that it looks at nothing but the first seeds' spread."""

import numpy as np
import pytest

from headcount.sweeps.statistics import (
    mean_estimate,
    paired_delta,
    plan_seeds,
    stein_delta,
    stein_estimate,
)
from headcount.sweeps.statistics.seeds import staged_estimate

FIRST = [-0.012, -0.009, -0.015]  # sd 0.003; t of 2 df is 4.3027


def test_total_is_what_the_first_spread_asks_for() -> None:
    plan = plan_seeds(FIRST, 0.005, 10)
    assert plan.sd == pytest.approx(0.003)
    assert (plan.total, plan.wanted) == (7, 7)  # (4.3027·0.003/0.005)² = 6.66
    assert plan.reached == pytest.approx(4.302653 * 0.003 / 7**0.5, rel=1e-6)
    assert plan.reached <= 0.005


def test_the_maximum_caps_the_total_and_says_what_is_reached() -> None:
    plan = plan_seeds(FIRST, 0.001, 10)
    assert (plan.total, plan.wanted) == (10, 167)
    assert plan.reached == pytest.approx(4.302653 * 0.003 / 10**0.5, rel=1e-6)


def test_narrow_first_seeds_need_no_more() -> None:
    assert plan_seeds(FIRST, 0.1, 10).total == 3
    assert plan_seeds([0.0, 0.0, 0.0], 0.005, 10).total == 3


def test_the_mean_does_not_matter() -> None:
    shifted = [delta + 1 for delta in FIRST]
    assert plan_seeds(shifted, 0.005, 10).total == plan_seeds(FIRST, 0.005, 10).total


def test_interval_keeps_the_first_spread() -> None:
    e = stein_estimate([*FIRST, 0.4, -0.2, 0.1, 0.0], 3)
    assert e.mean == pytest.approx(np.mean([*FIRST, 0.4, -0.2, 0.1, 0.0]))
    assert e.df == 2
    assert (e.high - e.low) / 2 == pytest.approx(plan_seeds(FIRST, 0.005, 10).reached)


def test_without_more_seeds_it_is_the_paired_interval() -> None:
    e, m = stein_estimate(FIRST, 3), mean_estimate(FIRST)
    assert (e.low, e.high, e.p) == pytest.approx((m.low, m.high, m.p))


def test_equal_first_deltas_have_no_interval() -> None:
    e = stein_estimate([0.0, 0.0, 0.0, 0.1], 3)
    assert (e.mean, e.low, e.p) == (0.025, None, None)
    assert e.reason is not None
    assert e.reason.startswith("the first deltas are equal")
    zero = stein_estimate([0.0] * 4, 3)
    assert (zero.mean, zero.low, zero.high, zero.p) == (0, 0, 0, None)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 deltas for a standard deviation, but has 1"):
        plan_seeds([0.1], 0.005, 10)
    with pytest.raises(ValueError, match="maximum must be at least the 3 seeds of the first stage, but is 2"):
        plan_seeds(FIRST, 0.005, 2)
    with pytest.raises(ValueError, match="half_width must be positive, but is 0"):
        plan_seeds(FIRST, 0, 10)
    with pytest.raises(ValueError, match="start must be between 2 and the 3 deltas, but is 4"):
        stein_estimate(FIRST, 4)


def test_a_delta_takes_the_interval_of_the_rule_and_keeps_the_rest() -> None:
    losses = dict(enumerate([*FIRST, 0.4, -0.2]))
    paired = paired_delta(losses, dict.fromkeys(losses, 0.0))
    by_rule, alone = stein_delta(paired, 3), stein_estimate(paired.deltas, 3)
    assert (by_rule.low, by_rule.high, by_rule.p, by_rule.df) == (alone.low, alone.high, alone.p, 2)
    assert by_rule.sd == pytest.approx(0.003)
    assert (by_rule.n, by_rule.seeds, by_rule.deltas) == (5, paired.seeds, paired.deltas)
    with pytest.raises(ValueError, match="start must be between 2 and the 5 deltas, but is 6"):
        stein_delta(paired, 6)


def test_a_contrast_of_added_seeds_has_the_error_of_the_first_ones_that_it_has() -> None:
    values = np.array([*FIRST, 0.4, np.nan, 0.1])
    staged, alone = staged_estimate(values, 3), stein_estimate([*FIRST, 0.4, 0.1], 3)
    assert (staged.low, staged.high, staged.p, staged.df, staged.n) == (
        *(alone.low, alone.high, alone.p, 2),
        5,
    )
    values[1] = np.nan  # the first stage has two left
    staged, alone = staged_estimate(values, 3), stein_estimate([FIRST[0], FIRST[2], 0.4, 0.1], 2)
    assert (staged.low, staged.high, staged.df) == (alone.low, alone.high, 1)
    values[0] = np.nan
    assert staged_estimate(values, 3).p is None
    assert (staged_estimate(values, 3).reason or "").startswith("fewer than 2 of the first seeds")
    assert staged_estimate(np.array([*FIRST, np.nan]), 3) == mean_estimate(FIRST)
    assert staged_estimate(values, None) == mean_estimate([FIRST[2], 0.4, 0.1])

"""Paired deltas against published tables, closed forms and scipy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from headcount.sweeps.statistics import mean_estimate, paired_delta, welch_delta

# Student (1908), hours of sleep gained under two drugs
SLEEP_A = dict(enumerate([0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]))
SLEEP_B = dict(enumerate([1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]))


def test_student_sleep() -> None:
    d = paired_delta(SLEEP_A, SLEEP_B)
    assert d.mean == pytest.approx(-1.58, abs=1e-12)
    assert d.sd == pytest.approx(1.2299955, abs=5e-8)
    assert d.t == pytest.approx(-4.0621277, abs=5e-8)
    assert d.df == 9
    assert d.p == pytest.approx(0.0028328902, abs=5e-11)
    assert (d.low, d.high) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)
    assert d.effect_size == pytest.approx(-1.28456, abs=5e-6)
    assert d.correlation == pytest.approx(0.795170, abs=5e-7)
    assert (d.n, d.seeds, d.reason) == (10, tuple(range(10)), None)


def test_three_deltas() -> None:
    d = mean_estimate([-0.012, -0.009, -0.015])
    assert d.t == pytest.approx(-6.9282, abs=5e-5)
    assert d.p == pytest.approx(0.0202041, abs=5e-8)
    assert (d.low, d.high) == pytest.approx((-0.0194524, -0.0045476), abs=5e-8)
    # too narrow: the percentiles of three values' means cannot leave the three values
    means = [np.mean(drawn) for drawn in product([-0.012, -0.009, -0.015], repeat=3)]
    bootstrap = np.quantile(means, [0.025, 0.975], method="inverted_cdf")
    assert bootstrap == pytest.approx([-0.015, -0.009])
    assert d.low is not None
    assert d.high is not None
    assert d.low < bootstrap[0] < bootstrap[1] < d.high


def test_a_published_record_of_eight_seeds() -> None:
    """modded-nanogpt, pull request 362: losses against the bar of 3.28."""
    losses = [3.27676, 3.27770, 3.27869, 3.27831, 3.27789, 3.27830, 3.27757, 3.27857]
    below = mean_estimate([3.28 - loss for loss in losses])
    assert below.mean == pytest.approx(3.28 - 3.27797375, abs=5e-9)
    assert below.sd == pytest.approx(0.00063315, abs=5e-9)
    assert below.mean * 8**0.5 == pytest.approx(0.0057311, abs=5e-8)
    assert below.p is not None
    assert below.p / 2 == pytest.approx(2.05e-5, abs=5e-8)


def test_seeds_of_one_side_are_listed_and_not_used() -> None:
    d = paired_delta({0: 3.1, 2: 3.3, 7: 3.2}, {2: 3.4, 0: 3.3, 5: 3.0})
    assert (d.seeds, d.without_treatment, d.without_control) == ((0, 2), (5,), (7,))
    assert d.deltas == pytest.approx((-0.2, -0.1))
    assert d.correlation is None  # two points always correlate fully


def test_one_pair_has_a_mean_and_nothing_else() -> None:
    d = paired_delta({4: 3.0}, {4: 3.5, 5: 3.5})
    assert d.mean == -0.5
    assert (d.sd, d.se, d.df, d.t, d.p, d.low, d.high, d.effect_size) == (None,) * 8
    assert d.reason == "one value has no standard deviation, interval or p"


def test_no_pair_has_no_mean() -> None:
    d = paired_delta({0: 3.0}, {1: 3.0})
    assert (d.mean, d.n, d.low, d.seeds) == (None, 0, None, ())
    assert d.reason == "no seed has both a treatment and a control"


def test_equal_jobs_differ_by_exactly_0() -> None:
    losses = {0: 3.123456789, 1: 3.2, 2: 3.1}
    d = paired_delta(losses, dict(losses))
    assert (d.mean, d.sd, d.se, d.low, d.high) == (0.0,) * 5
    assert (d.t, d.p, d.effect_size) == (None, None, None)
    assert d.reason is not None
    assert d.reason.startswith("all values are 0")


def test_a_shift_without_variation_has_no_interval() -> None:
    # the three differences are equal but for the last bit
    d = paired_delta({0: 3.1, 1: 3.2, 2: 3.3}, {0: 3.0, 1: 3.1, 2: 3.2})
    assert d.mean == pytest.approx(0.1)
    assert (d.sd, d.low, d.high, d.t, d.p) == (0.0, None, None, None, None)


def test_bad_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="control at seed 1 is nan: leave diverged seeds out"):
        paired_delta({1: 3.0}, {1: float("nan")})
    with pytest.raises(ValueError, match=r"confidence must be between 0 and 1, like 0.95, but is 95"):
        paired_delta({1: 3.0}, {1: 3.1}, confidence=95)
    with pytest.raises(ValueError, match=r"values\[1\] is inf"):
        mean_estimate([1.0, float("inf")])


def test_welch_is_scipys() -> None:
    rng = np.random.default_rng(1)
    t, c = rng.normal(3.0, 0.01, 4), rng.normal(3.1, 0.05, 7)
    d = welch_delta(t, c)
    reference = stats.ttest_ind(t, c, equal_var=False)
    interval = reference.confidence_interval(0.95)
    assert (d.t, d.p, d.df) == pytest.approx((reference.statistic, reference.pvalue, reference.df))
    assert (d.low, d.high) == pytest.approx((interval.low, interval.high))
    assert (d.n_treatment, d.n_control) == (4, 7)


def test_welch_without_an_error_says_why() -> None:
    assert welch_delta([], [3.0]).reason == "one side has no value"
    one = welch_delta([3.0], [3.5, 3.6])
    assert (one.mean, one.p, one.reason) == (pytest.approx(-0.55), None, "both sides need 2 values")
    same = welch_delta([3.0, 3.0], [3.5, 3.5])
    assert (same.mean, same.low, same.reason) == (-0.5, None, "neither side varies")

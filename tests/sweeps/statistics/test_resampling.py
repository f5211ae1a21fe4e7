"""Runs drawn again within their settings."""

import numpy as np
import pytest

from headcount.sweeps.statistics.resampling import drawn_again, drawn_means, middle

LOSSES = np.array([3.0, 2.5, 3.1, 2.6, 3.3, 9.0])
SETTING = np.array([0, 1, 0, 1, 0, 2], dtype=np.intp)


def test_runs_are_drawn_from_those_of_their_setting_and_widened() -> None:
    generator = np.random.default_rng(0)
    for drawn in drawn_again(SETTING, LOSSES, 5, np.random.default_rng(0)):
        expected = LOSSES.copy()
        for runs in (SETTING == 0, SETTING == 1):
            n, mean = runs.sum(), LOSSES[runs].mean()
            again = generator.choice(LOSSES[runs], n)
            expected[runs] = mean + (n / (n - 1)) ** 0.5 * (again - mean)
        assert drawn == pytest.approx(expected, rel=1e-15)


def test_their_mean_has_the_variance_of_a_mean_and_one_run_stays() -> None:
    drawn = drawn_again(SETTING, LOSSES, 20_000, np.random.default_rng(1))
    of_three = LOSSES[SETTING == 0]
    assert drawn[:, SETTING == 0].mean(axis=1).var() == pytest.approx(of_three.var(ddof=1) / 3, rel=0.03)
    assert set(drawn[:, 5].tolist()) == {9.0}
    alone = drawn_again(np.arange(6), LOSSES, 2, np.random.default_rng(1))
    assert alone.tolist() == [LOSSES.tolist()] * 2


def test_drawn_means_are_quantiles_of_t_and_the_middle_are_values_of_them() -> None:
    means = drawn_means([1.0, 2.0, 3.0], 999, seed=0)
    low, high = middle(means)
    assert {low, high} <= set(means.tolist())
    assert (low, high) == (pytest.approx(2 - 4.303 / 3**0.5, abs=0.06), pytest.approx(4.48, abs=0.06))
    assert drawn_means([2.5], 3, seed=0).tolist() == [2.5] * 3

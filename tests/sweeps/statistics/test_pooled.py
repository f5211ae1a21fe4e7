"""The pooled error against the curve's closed form and statsmodels' least squares."""

import numpy as np
import pytest
from statsmodels.regression.linear_model import OLS

from headcount.sweeps.statistics import (
    loss_table,
    no_narrower,
    pair_error,
    pooled_delta,
    pooled_error,
    wide_cells,
)

# Heads 1 2 4 8 16 32 at three seeds
CURVE = np.array(
    [
        [3.606, 3.523, 3.475, 3.462, 3.495, 3.563],
        [3.596, 3.519, 3.465, 3.458, 3.487, 3.557],
        [3.600, 3.518, 3.470, 3.460, 3.487, 3.559],
    ]
).T


def test_balanced_table_is_the_block_design() -> None:
    pooled = pooled_error(CURVE)
    assert pooled.sd == pytest.approx(0.00167332, abs=5e-9)
    assert (pooled.df, pooled.balanced) == (10, True)
    d = pooled_delta(pooled, 4, 3)
    assert d.mean == pytest.approx(0.0296667, abs=5e-8)
    assert d.t == pytest.approx(21.71378, abs=5e-6)
    assert d.p == pytest.approx(9.59e-10, abs=5e-13)
    assert (d.low, d.high) == pytest.approx((0.0266, 0.0327), abs=5e-5)


def test_student_sleep_is_an_analysis_of_variance() -> None:
    """Two drugs by ten subjects: F of repeated measures is t², and the residual is that of a mixed model."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    pooled = pooled_error(np.array([first, second]))
    d = pooled_delta(pooled, 1, 0)
    assert (d.mean, d.df) == (pytest.approx(1.58, abs=1e-12), 9)
    assert d.t is not None
    assert d.t**2 == pytest.approx(16.500881, abs=5e-7)
    assert pooled.sd is not None
    assert pooled.sd**2 == pytest.approx(0.756444, abs=5e-7)


def test_unbalanced_table_is_least_squares() -> None:
    table = CURVE.copy()
    table[0, 2] = table[4, 1] = table[4, 2] = np.nan
    cell, seed = np.nonzero(~np.isnan(table))
    design = np.hstack([np.eye(6)[cell], np.eye(3)[seed][:, 1:]])
    fit = OLS(table[cell, seed], design).fit()
    contrast = np.zeros(8)
    contrast[4], contrast[0] = 1, -1
    reference = fit.t_test(contrast)

    pooled = pooled_error(table)
    assert (pooled.df, pooled.balanced) == (15 - 6 - 3 + 1, False)
    assert pooled.sd == pytest.approx(fit.mse_resid**0.5, rel=1e-10)
    d = pooled_delta(pooled, 4, 0)
    assert d.mean == pytest.approx(reference.effect[0], rel=1e-10)
    assert d.se == pytest.approx(reference.sd[0, 0], rel=1e-10)
    assert (d.low, d.high) == pytest.approx(tuple(reference.conf_int()[0]), rel=1e-10)


def test_two_cells_are_a_paired_t() -> None:
    d = pooled_delta(pooled_error(CURVE[[3, 4]]), 1, 0)
    assert d.t == pytest.approx(16.81942, abs=5e-6)
    assert d.df == 2
    assert d.p == pytest.approx(0.00351627, abs=5e-9)


def test_cells_without_a_way_between_their_seeds_are_not_compared() -> None:
    _, table = loss_table([{0: 3.0, 1: 3.2}, {0: 3.1, 1: 3.4}, {2: 3.0, 3: 3.1}, {2: 3.3, 3: 3.3}, {}])
    pooled = pooled_error(table)
    assert pooled.df == 2
    assert pooled_delta(pooled, 1, 0).mean == pytest.approx(0.15)
    apart = pooled_delta(pooled, 2, 0)
    assert (apart.mean, apart.reason) == (
        None,
        "the two cells share no seed, directly or through other cells",
    )
    assert pooled_delta(pooled, 4, 0).reason == "one of the two cells has no loss"


def test_cells_are_compared_through_a_third() -> None:
    # cells 0 and 2 share no seed; cell 1 shares seed 1 with both
    _, table = loss_table([{0: 3.0, 1: 3.1}, {1: 3.3, 2: 3.4}, {2: 3.9, 3: 3.8}])
    pooled = pooled_error(table)
    d = pooled_delta(pooled, 2, 0)
    assert d.mean == pytest.approx((3.9 - 3.4) + (3.3 - 3.1))
    assert (pooled.sd, pooled.df, d.low) == (None, 0, None)
    assert d.reason == "no degree of freedom is left for the error"


def test_losses_without_error_have_no_interval() -> None:
    exact = np.array([[3.0], [3.1], [3.25]]) + np.array([0.0, 0.1, 0.3])
    d = pooled_delta(pooled_error(exact), 1, 0)
    assert d.mean == pytest.approx(0.1)
    assert (d.se, d.p, d.reason) == (None, None, "the losses do not vary beyond cell and seed")


def test_bad_tables_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"cells × seeds with at least 2 × 1 entries, but have shape \(1, 3\)"
    ):
        pooled_error(CURVE[:1])
    with pytest.raises(ValueError, match=r"losses\[1, 0\] is inf: leave cells with diverged seeds out"):
        pooled_error(np.array([[3.0, 3.1], [np.inf, 3.2]]))


def test_the_spread_of_a_cell_is_unbiased_with_and_without_missing_seeds() -> None:
    rng = np.random.default_rng(0)
    noise, seeds = rng.normal(0, 1, (3000, 6, 4)), rng.normal(0, 2, (3000, 1, 4))
    missing = np.where(np.isin(np.arange(24).reshape(6, 4), (0, 14)), np.nan, 0)
    for present in (0, missing):
        squares = np.mean([pooled_error(draw).spreads ** 2 for draw in noise + seeds + present], axis=0)
        assert squares == pytest.approx(np.ones(6), rel=0.12 if present is missing else 0.05)
    # a cell of 3 times the spread: a sixth of each seed's mean is its own, and the others' residuals show it
    noise[:, 5] *= 3
    squares = np.mean([pooled_error(draw).spreads ** 2 for draw in noise + seeds], axis=0)
    assert squares == pytest.approx(6 / 5 * (np.array([1] * 5 + [9]) * (1 - 2 / 6) + 14 / 36), rel=0.06)


def test_an_error_is_not_below_what_the_two_cells_give() -> None:
    pooled = pooled_error(CURVE)
    residuals = CURVE - CURVE.mean(1, keepdims=True) - CURVE.mean(0) + CURVE.mean()
    own = np.sqrt((residuals[[4, 3]] ** 2).sum() * 6 / 5 / 2 / 3)
    assert pair_error(pooled, 4, 3) == pytest.approx(own, rel=1e-12)
    delta = pooled_delta(pooled, 4, 3)
    assert delta.se is not None
    assert no_narrower(delta, delta.se / 2) is delta
    wider = no_narrower(delta, 2 * delta.se)
    assert (wider.mean, wider.df, wider.se) == (delta.mean, delta.df, 2 * delta.se)
    assert wider.p is not None
    assert delta.p is not None
    assert wider.p > delta.p
    alone = pooled_delta(pooled_error(CURVE[:, :1]), 1, 0)
    assert no_narrower(alone, 1.0) is alone


def test_a_cell_is_wide_rarely_and_nearly_always_at_four_times_the_spread() -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(0, 0.01, (800, 12, 6))
    alike = np.array([wide_cells(pooled_error(losses)) for losses in noise])
    assert 0.02 < alike.mean() < 0.05
    noise[:, 3] *= 4
    found = np.array([wide_cells(pooled_error(losses)) for losses in noise])
    assert found[:, 3].mean() > 0.95
    assert np.delete(found, 3, axis=1).mean() < 0.05
    assert not wide_cells(pooled_error(np.full((3, 2), 3.0))).any()
    assert not wide_cells(pooled_error(noise[0, :, :1])).any()

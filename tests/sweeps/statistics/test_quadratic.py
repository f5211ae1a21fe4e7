"""The parabola and the two lines on the synthetic curve, to its printed digits, and against statsmodels."""

import numpy as np
import pytest
import statsmodels.api as sm

from headcount.sweeps.statistics import parabola, two_lines

HEADS = [1, 2, 4, 8, 16, 32]
CURVE = np.array(
    [
        [3.606, 3.523, 3.475, 3.462, 3.495, 3.563],
        [3.596, 3.519, 3.465, 3.458, 3.487, 3.557],
        [3.600, 3.518, 3.470, 3.460, 3.487, 3.559],
    ]
).T


def test_the_parabola_of_the_curve() -> None:
    fit = parabola(HEADS, CURVE)
    assert fit is not None
    assert (fit.linear, fit.quadratic, fit.df) == (
        pytest.approx(-0.1044571, abs=5e-8),
        pytest.approx(0.0191429, abs=5e-8),
        13,
    )
    assert (fit.left.slope, fit.left.se) == (fit.linear, pytest.approx(0.0011802, abs=5e-8))
    assert fit.left.slope / fit.left.se == pytest.approx(-88.51, abs=5e-3)
    assert fit.right.slope == pytest.approx(0.0869714, abs=5e-8)
    assert fit.right.slope / fit.right.se == pytest.approx(73.69, abs=5e-3)
    assert fit.minimum is not None
    assert fit.minimum == pytest.approx(6.6270, abs=5e-5)
    assert fit.low is not None
    assert fit.high is not None
    assert np.log2([fit.minimum, fit.low, fit.high]) == pytest.approx(
        [2.728358, 2.708936, 2.748080], abs=5e-7
    )
    assert fit.p < 1e-15


def test_without_effects_of_seeds_the_interval_is_wider() -> None:
    fit = parabola(HEADS, CURVE, seed_effects=False)
    assert fit is not None
    assert fit.left.se == pytest.approx(0.0019305, abs=5e-8)
    assert fit.low is not None
    assert fit.high is not None
    assert np.log2([fit.low, fit.high]) == pytest.approx([2.697144, 2.760351], abs=5e-7)


def test_two_lines_of_the_curve() -> None:
    fit = two_lines(HEADS, CURVE, last_left=4)
    assert fit is not None
    assert (fit.left.slope, fit.right.slope) == (
        pytest.approx(-0.0653333, abs=5e-8),
        pytest.approx(0.0498333, abs=5e-8),
    )
    # the printed p are two-sided
    assert 2 * fit.left.p == pytest.approx(2.6e-7, abs=5e-9)
    assert 2 * fit.right.p == pytest.approx(9.8e-6, abs=5e-8)
    assert fit.p == fit.right.p


def test_two_lines_adjust_for_the_levels_that_a_seed_lacks() -> None:
    shifted = CURVE + np.array([0.0, 5.0, -5.0])
    shifted[0, 1] = np.nan
    fit = two_lines(HEADS, shifted, last_left=4)
    assert fit is not None
    assert fit.left.slope == pytest.approx(-0.0653, abs=2e-3)


def test_missing_losses_leave_the_rest() -> None:
    table = CURVE.copy()
    table[0, 1] = table[4, 2] = np.nan
    fit = parabola(HEADS, table)
    known = ~np.isnan(table)
    rows, seeds = np.nonzero(known)
    design = np.column_stack([rows, rows**2, np.eye(3)[seeds]])
    reference = sm.OLS(table[known], design).fit()
    assert fit is not None
    assert (fit.linear, fit.quadratic, fit.df) == (*map(pytest.approx, reference.params[:2]), 11)


def test_a_line_has_no_minimum_and_is_no_u() -> None:
    rng = np.random.default_rng(3)
    fall = 3.5 - 0.1 * np.arange(6)[:, None] + rng.normal(0, 0.01, (6, 3))
    fit = parabola(HEADS, fall)
    assert fit is not None
    assert (fit.low, fit.high) == (None, None)
    assert fit.p > 0.9


def test_the_top_of_an_upturned_u_is_no_minimum() -> None:
    fit = parabola(HEADS, 7 - CURVE)
    assert fit is not None
    assert fit.quadratic == pytest.approx(-0.0191429, abs=5e-8)
    assert (fit.minimum, fit.low, fit.high) == (None, None, None)
    assert fit.p > 0.99


@pytest.mark.parametrize("bend", [0.02, 0.004])
def test_fiellers_interval_covers_as_often_as_it_says(bend: float) -> None:
    """Where the curvature is not shown, no level is left out, so that the true one is in."""
    rng = np.random.default_rng(0)
    truth = 3 + bend * (np.arange(6.0) - 2.5)[:, None] ** 2
    covered = []
    for _ in range(500):
        fit = parabola(HEADS, truth + rng.normal(0, 0.02, 3) + rng.normal(0, 0.02, (6, 3)))
        assert fit is not None
        covered.append(fit.low is None or fit.high is None or fit.low <= 2**2.5 <= fit.high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


def test_what_cannot_be_fitted_is_none() -> None:
    assert parabola(HEADS[:2], CURVE[:2]) is None
    assert parabola(HEADS[:3], CURVE[:3, :1]) is None
    assert parabola(HEADS, np.repeat(CURVE[:, :1], 3, axis=1) * 0 + 3) is None
    assert two_lines(HEADS, CURVE, last_left=2) is None
    with pytest.raises(ValueError, match="need as many positive levels"):
        parabola([0, 1, 2, 4, 8, 16], CURVE)


def test_a_straight_line_has_its_end_far_away_and_no_interval() -> None:
    """What is left of the curvature is rounding, so that the minimum would be beyond any float."""
    losses = [[3 + 0.1 * x + e for e in (0.002, -0.001 * x)] for x in range(4)]
    fit = parabola([1, 2, 4, 8], np.array(losses))
    assert fit is not None
    assert abs(fit.quadratic) < 1e-15
    assert fit.minimum in (None, 2.0**1000, 2.0**-1000)  # by the sign of the rounding
    assert (fit.low, fit.high) == (None, None)

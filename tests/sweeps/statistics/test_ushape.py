"""U, flatness and curvature on the synthetic curve, its digits in closed form."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.weightstats import ttost_paired

from headcount.sweeps.statistics import curvature, equivalence, u_shape
from headcount.sweeps.statistics.ushape import quadratic_weights

HEADS = [1, 2, 4, 8, 16, 32]
CURVE = np.array(
    [
        [3.606, 3.523, 3.475, 3.462, 3.495, 3.563],
        [3.596, 3.519, 3.465, 3.458, 3.487, 3.557],
        [3.600, 3.518, 3.470, 3.460, 3.487, 3.559],
    ]
).T


def test_contrasts_of_the_curve() -> None:
    u = u_shape(HEADS, CURVE, ends=[1, 32], middle=[8])
    left, right = u.ends
    assert left.rises == pytest.approx((0.144, 0.138, 0.140))
    assert left.p == pytest.approx(7.86e-5, abs=5e-8)
    assert right.rises == pytest.approx((0.101, 0.099, 0.099))
    assert right.p == pytest.approx(2.24e-5, abs=5e-8)
    assert (u.u_shaped, u.p, u.flat_curve, u.flat_middle) == (True, left.p, None, None)
    assert left.rise.confidence == 0.95


def test_several_middles_are_averaged_and_several_ends_must_all_rise() -> None:
    u = u_shape(HEADS, CURVE, ends=[1, 16, 32], middle=[4, 8])
    assert [e.end for e in u.ends] == [1, 16, 32]
    reference = stats.ttest_1samp(CURVE[4] - (CURVE[2] + CURVE[3]) / 2, 0, alternative="greater")
    assert u.ends[1].p == pytest.approx(reference.pvalue)
    assert u.p == u.ends[1].p


def test_a_fall_is_no_u() -> None:
    u = u_shape(HEADS[:4], CURVE[:4], ends=[1, 8], middle=[4])
    assert u.ends[0].p is not None
    assert u.ends[0].p < 0.001
    assert u.p is not None
    assert u.p > 0.95
    assert not u.u_shaped


def test_missing_seeds_leave_only_the_contrasts_that_need_them() -> None:
    table = CURVE.copy()
    table[0, 1] = np.nan
    u = u_shape(HEADS, table, ends=[1, 32], middle=[8])
    assert u.ends[0].rises == pytest.approx((0.144, 0.140))
    assert u.ends[1].rises == pytest.approx((0.101, 0.099, 0.099))
    one_seed = u_shape(HEADS, CURVE[:, :1], ends=[1, 32], middle=[8], flat_margin=0.01)
    assert (one_seed.p, one_seed.u_shaped) == (None, False)
    assert one_seed.ends[0].rise.reason == "one value has no standard deviation, interval or p"
    assert one_seed.flat_curve is not None
    assert (one_seed.flat_curve.p, one_seed.flat_curve.equivalent) == (None, False)


def test_heads_that_change_nothing_are_no_u() -> None:
    same = np.tile([3.6, 3.5, 3.7], (6, 1))
    u = u_shape(HEADS, same, ends=[1, 32], middle=[4, 8], flat_margin=0.01)
    assert (u.p, u.u_shaped) == (None, False)
    assert (u.ends[0].rise.low, u.ends[0].rise.high) == (0, 0)


def test_two_one_sided_tests_as_statsmodels() -> None:
    near = np.array([[3.46, 3.47, 3.45, 3.462], [3.461, 3.472, 3.449, 3.465]])
    p, _, _ = ttost_paired(near[0], near[1], -0.005, 0.005)
    flat = equivalence([4, 8], near, margin=0.005)
    assert flat.p == pytest.approx(p)
    assert (flat.equivalent, flat.widest) == (bool(p <= 0.05), (4, 8))


def test_a_curve_is_as_flat_as_its_worst_pair() -> None:
    rng = np.random.default_rng(0)
    table = 3 + rng.normal(size=4) * 0.1 + rng.normal(size=(4, 4)) * 0.0005
    flat = u_shape([1, 2, 4, 8], table, ends=[1, 8], middle=[2, 4], flat_margin=0.01)
    assert flat.flat_curve is not None
    assert flat.flat_middle is not None
    assert flat.flat_curve.equivalent
    assert flat.flat_middle.levels == (2, 4)
    table[3] += 0.02
    bent = u_shape([1, 2, 4, 8], table, ends=[1, 8], middle=[2, 4], flat_margin=0.01)
    assert bent.flat_curve is not None
    assert not bent.flat_curve.equivalent
    assert bent.flat_curve.widest[1] == 8
    assert bent.flat_middle == flat.flat_middle


def test_curvature_of_the_curve() -> None:
    assert quadratic_weights(HEADS) * 56 == pytest.approx([5, -1, -4, -4, -1, 5])
    bend, per_seed = curvature(HEADS, CURVE)
    assert np.array(per_seed) * 56 == pytest.approx([1.079, 1.067, 1.070])
    assert bend.mean == pytest.approx(0.0191429, abs=5e-8)
    assert bend.p is not None
    assert bend.p / 2 == pytest.approx(5.66e-6, abs=5e-9)


def test_curvature_is_the_quadratic_coefficient_at_uneven_levels() -> None:
    levels = [1, 2, 3, 8, 24]
    x = np.log2(levels)
    losses = np.stack([0.3 * x**2 - x + 2, 0.5 * x**2 + 1], axis=1)
    assert curvature(levels, losses)[1] == pytest.approx((0.3, 0.5))


def test_bad_input_is_refused() -> None:
    def refused(message: str, ends: list[float], middle: list[float], alpha: float = 0.05) -> None:
        with pytest.raises(ValueError, match=message):
            u_shape(HEADS, CURVE, ends=ends, middle=middle, alpha=alpha)

    refused("middle has 6, but the levels are 1, 2, 4, 8, 16, 32", [1, 16], [6])
    refused("ends 1, 8 must lie outside the middle 4, 16", [1, 8], [4, 16])
    refused("ends 1 must lie outside the middle none", [1], [])
    refused("an end on each side of the middle 8, but has 1, 2", [1, 2], [8])
    refused("alpha must be between 0 and 0.5, like 0.05, but is 0.95", [1, 16], [8], 0.95)
    with pytest.raises(ValueError, match="losses of 6 rows need as many different levels, but got 1, 1"):
        u_shape([1, 1], CURVE, ends=[1], middle=[1])
    with pytest.raises(ValueError, match="margin must be positive, in the units of the loss, but is 0"):
        equivalence(HEADS, CURVE, margin=0)
    with pytest.raises(ValueError, match="at least 2 levels, but got 1"):
        equivalence([1], CURVE[:1], margin=0.01)
    with pytest.raises(ValueError, match="at least 3 positive levels, but got 0, 1, 2"):
        curvature([0, 1, 2], CURVE[:3])

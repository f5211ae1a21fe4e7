"""Power, seeds and floors against statsmodels, scipy's exact tests and closed forms."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from headcount.sweeps.statistics import (
    outperforming_size,
    power,
    rank_test_floor,
    seeds_needed,
    selection_bias,
    smallest_difference,
)


def test_published_sizes() -> None:
    assert power(0.5, 33.367**-0.5, 32.367) == pytest.approx(0.8, abs=1e-5)
    assert power(0.5, (2 / 63.7656) ** 0.5, 2 * 63.7656 - 2) == pytest.approx(0.8, abs=1e-6)
    assert power(1, (2 / 22.02109) ** 0.5, 2 * 22.02109 - 2) == pytest.approx(0.9, abs=1e-6)
    assert power(2, 3**-0.5, 2) == pytest.approx(0.471, abs=5e-4)
    assert power(-3, 3**-0.5, 2) == pytest.approx(0.745, abs=5e-4)


@pytest.mark.parametrize(("n", "d_z"), [(3, 3.26), (4, 2.13), (5, 1.68), (8, 1.16), (10, 1.00)])
def test_smallest_paired_difference(n: int, d_z: float) -> None:
    assert smallest_difference(n**-0.5, n - 1) == pytest.approx(d_z, abs=5e-3)
    assert smallest_difference(0.001 * n**-0.5, n - 1) == pytest.approx(0.001 * d_z, abs=5e-6)


@pytest.mark.parametrize(
    ("cells", "n", "printed"), [(25, 3, 3.35), (25, 5, 2.54), (7, 3, 3.29), (7, 5, 2.36)]
)
def test_smallest_pooled_difference_has_its_power(cells: int, n: int, printed: float) -> None:
    se, df = (2 / n) ** 0.5, (cells - 1) * (n - 1)
    d = smallest_difference(se, df, comparisons=cells - 1)
    critical = stats.t.isf(0.025 / (cells - 1), df)
    assert stats.nct.sf(critical, df, d / se) == pytest.approx(0.8, abs=1e-9)
    # the usual sum of two quantiles, which is printed, is close
    assert se * (critical + stats.t.ppf(0.8, df)) == pytest.approx(printed, abs=5e-3)
    assert d == pytest.approx(printed, rel=0.02)


def test_power_rises_with_the_difference_in_every_design() -> None:
    for df in (1, 2, 10, 48, 500):
        for comparisons in (1, 24, 5000):
            rising = [power(d, 1.0, df, comparisons=comparisons) for d in np.linspace(0, 50, 101)]
            assert rising[0] == pytest.approx(0.05 / comparisons)
            assert np.all(np.diff(rising) > -1e-12)


def test_few_degrees_of_freedom_and_many_comparisons() -> None:
    d = smallest_difference(1.0, 1, comparisons=24)
    assert power(d, 1.0, 1, comparisons=24) == pytest.approx(0.8, abs=1e-9)
    assert power(1000.0, 1.0, 30) == 1.0


def test_seeds_needed_is_the_first_number_that_suffices() -> None:
    assert seeds_needed(0.5, 1.0) == 34  # 33.367
    assert seeds_needed(-0.5, 1.0) == 34
    assert seeds_needed(100.0, 1.0) == 2
    for difference in (0.05, 0.3, 1.5):
        exact = TTestPower().solve_power(difference, alpha=0.05 / 3, power=0.9)
        assert seeds_needed(difference, 1.0, comparisons=3, target=0.9) == int(np.ceil(exact))


def test_the_size_for_a_probability_of_outperforming() -> None:
    assert outperforming_size(0.75) == pytest.approx(28.86, abs=5e-3)
    assert outperforming_size(0.75, comparisons=5) == outperforming_size(0.75, alpha=0.01)
    assert outperforming_size(0.9) < 12 < outperforming_size(0.75, target=0.8) < 29 < outperforming_size(0.7)


def test_the_rank_sum_test_of_that_size_has_its_power() -> None:
    """Of normal losses apart by √2·Φ⁻¹(¾) standard deviations: one is below the other in ¾ of all pairs."""
    rng = np.random.default_rng(0)
    control, treatment = rng.normal(0, 1, (2, 2000, 29))
    shifted = treatment - 2**0.5 * stats.norm.ppf(0.75)
    p = stats.mannwhitneyu(shifted, control, axis=1, alternative="less", method="asymptotic").pvalue
    assert np.mean(p <= 0.05) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("n", "floor"), [(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_rank_test_floor(n: int, floor: float) -> None:
    deltas = -np.arange(1.0, n + 1)  # as clear as n pairs can be
    assert rank_test_floor(n) == floor
    assert stats.wilcoxon(deltas, method="exact").pvalue == floor
    flips = stats.permutation_test((deltas,), np.sum, permutation_type="samples", n_resamples=np.inf)
    assert flips.pvalue == pytest.approx(floor)
    assert rank_test_floor(1) == 1.0


def test_selection_bias_is_the_expected_smallest_of_k() -> None:
    expected = {1: 0.0, 2: 0.5642, 3: 0.8463, 4: 1.0294, 5: 1.1630, 7: 1.3522, 10: 1.5388}
    assert [selection_bias(k) for k in expected] == pytest.approx(list(expected.values()), abs=5e-5)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="power needs se > 0, df > 0 and comparisons ≥ 1, but se=0"):
        power(1, 0, 2)
    with pytest.raises(ValueError, match=r"target must be between alpha and 1, like 0.8, but is 80"):
        smallest_difference(1, 2, target=80)
    with pytest.raises(ValueError, match=r"between 0.5 and 1, like 0.75, but is 0.5"):
        outperforming_size(0.5)
    with pytest.raises(ValueError, match=r"0 < alpha < target < 1, but comparisons=1, alpha=0.5"):
        outperforming_size(0.75, alpha=0.5, target=0.4)
    with pytest.raises(ValueError, match="a difference other than 0"):
        seeds_needed(0, 1)
    with pytest.raises(ValueError, match="at least 1 pair"):
        rank_test_floor(0)
    with pytest.raises(ValueError, match="at least 1 choice"):
        selection_bias(0)

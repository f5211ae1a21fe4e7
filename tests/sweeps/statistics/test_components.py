"""Variance components against statsmodels' mixed model and least squares, and simulated truths."""

import numpy as np
import pytest
import statsmodels.api as sm

from headcount.sweeps.statistics import paired_delta, pooled_delta, pooled_error, variance_components

# Student (1908), hours of sleep gained under two drugs
SLEEP = np.array(
    [
        [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
        [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
    ]
)


def test_student_sleep_as_a_mixed_model() -> None:
    found = variance_components(SLEEP)
    assert found is not None
    assert found.f == pytest.approx(16.500881, abs=5e-7)
    assert found.seed_variance == pytest.approx(2.848333, abs=5e-7)
    assert found.residual_variance == pytest.approx(0.756444, abs=5e-7)
    assert (found.cells_df, found.df) == (1, 9)
    coefficient = pooled_delta(pooled_error(SLEEP), 1, 0)
    assert coefficient.mean == pytest.approx(1.58, abs=5e-3)
    assert coefficient.t == pytest.approx(4.06208, abs=5.5e-5)  # printed: 4.06208 of 4.0621277
    paired = paired_delta(*(dict(enumerate(drug)) for drug in SLEEP))
    assert paired.t is not None
    assert [found.f, found.p] == pytest.approx([paired.t**2, paired.p])


def test_a_balanced_table_is_restricted_maximum_likelihood_and_the_f_of_least_squares() -> None:
    rng = np.random.default_rng(4)
    table = 300 + rng.normal(0, 2, 6) + np.linspace(0, 2, 4)[:, None] + rng.normal(0, 1, (4, 6))
    cell, seed = np.nonzero(~np.isnan(table))
    loss, of_cell, of_seed = table[cell, seed], np.eye(4)[cell], np.eye(6)[seed]
    found = variance_components(table)
    assert found is not None
    fit = sm.MixedLM(loss, of_cell, groups=seed).fit()
    assert found.seed_variance == pytest.approx(float(fit.cov_re[0, 0]), rel=1e-4)
    assert found.residual_variance == pytest.approx(fit.scale, rel=1e-4)
    full = sm.OLS(loss, np.hstack([of_seed, of_cell[:, 1:]])).fit()
    f, p, df = full.compare_f_test(sm.OLS(loss, of_seed).fit())
    assert [found.f, found.p] == pytest.approx([f, p])
    assert (found.cells_df, found.df) == (df, full.df_resid) == (3, 15)


def test_components_with_missing_seeds_are_right_on_average() -> None:
    rng = np.random.default_rng(7)
    seeds, residuals = [], []
    for _ in range(1500):
        table = 3 + rng.normal(0, 0.02, 5) + rng.normal(0, 0.01, (4, 5))
        table[0, :2] = table[2, 4] = np.nan
        found = variance_components(table)
        assert found is not None
        seeds.append(found.seed_variance)
        residuals.append(found.residual_variance)
    assert np.mean(seeds) == pytest.approx(0.02**2, rel=0.06)
    assert np.mean(residuals) == pytest.approx(0.01**2, rel=0.03)


def test_seeds_that_add_nothing_have_no_variance_and_too_little_no_components() -> None:
    rng = np.random.default_rng(0)
    table = rng.normal(0, 0.01, (4, 6)) + 3
    table -= table.mean(0)  # every seed has the same mean
    found = variance_components(table)
    assert found is not None
    assert (found.seed_variance, found.correlation) == (0, 0)
    assert variance_components(table[:, :1]) is None
    assert variance_components(np.array([[3.0], [3.1], [3.25]]) + np.array([0.0, 0.1, 0.3])) is None
    with pytest.raises(ValueError, match="at least 2 × 1 entries"):
        variance_components(table[:1])

"""Dunnett's distribution against his tables and scipy's multivariate t."""

import numpy as np
import pytest
from scipy import stats

from headcount.sweeps.statistics import dunnett_deltas, pooled_delta, pooled_error
from headcount.sweeps.statistics.dunnett import dunnett_cdf, dunnett_critical


@pytest.mark.parametrize(
    ("comparisons", "df", "two_sided", "one_sided"),
    [(2, 10, 2.57, 2.15), (3, 20, 2.54, 2.19), (5, 10, 2.99, 2.56), (9, 60, 2.77, 2.48)],
)
def test_published_critical_values(comparisons: int, df: int, two_sided: float, one_sided: float) -> None:
    assert dunnett_critical(0.05, comparisons, df) == pytest.approx(two_sided, abs=0.0051)
    assert dunnett_critical(0.05, comparisons, df, one_sided=True) == pytest.approx(one_sided, abs=0.0051)


def test_cdf_is_that_of_the_multivariate_t() -> None:
    shape = 0.5 + 0.5 * np.eye(4)
    for t, df in ((1.0, 2), (3.0, 6), (2.5, 48)):
        reference = stats.multivariate_t(shape=shape, df=df, seed=0)
        inside = reference.cdf(np.full(4, t), lower_limit=np.full(4, -t), maxpts=100_000)
        assert dunnett_cdf(t, 4, df) == pytest.approx(inside, abs=1e-4)
        below = reference.cdf(np.full(4, t), maxpts=100_000)
        assert dunnett_cdf(t, 4, df, one_sided=True) == pytest.approx(below, abs=1e-4)


def test_one_comparison_is_students_t() -> None:
    for df in (1, 2, 30):
        assert dunnett_cdf(3.0, 1, df) == pytest.approx(1 - 2 * stats.t.sf(3.0, df), abs=1e-11)
        assert dunnett_critical(0.05, 1, df) == pytest.approx(stats.t.isf(0.025, df))


def test_deltas_lie_between_uncorrected_and_bonferroni() -> None:
    losses = np.random.default_rng(3).normal(size=(6, 4)) * 0.01 + 3
    pooled = pooled_error(losses)
    family = dunnett_deltas(pooled, 2)
    assert len(family.deltas) == 5
    for row, delta, p in zip([0, 1, 3, 4, 5], family.deltas, family.adjusted_p, strict=True):
        own = pooled_delta(pooled, row, 2)
        assert own.p is not None
        assert delta.mean == own.mean
        assert own.p < p < min(1, 5 * own.p)
        assert (p < 0.05) == (not delta.low <= 0 <= delta.high)
        assert delta.high - delta.low == pytest.approx(2 * family.critical * own.se)


def test_far_deltas_keep_a_positive_p() -> None:
    losses = np.array([[0.0, 0.001, 0.0], [9.0, 9.0, 9.001], [9.0, 9.001, 9.0], [9.002, 9.0, 9.0]]) + 3
    pooled = pooled_error(losses)
    for row, p in zip([1, 2, 3], dunnett_deltas(pooled, 0).adjusted_p, strict=True):
        own = pooled_delta(pooled, row, 0).p
        assert 0 < own <= p <= 3 * own


def test_unbalanced_and_exact_tables_are_refused() -> None:
    losses = np.random.default_rng(0).normal(size=(3, 3))
    losses[0, 0] = np.nan
    with pytest.raises(ValueError, match="need every seed in every cell and losses that vary; use holm"):
        dunnett_deltas(pooled_error(losses), 0)
    with pytest.raises(ValueError, match="losses that vary"):
        dunnett_deltas(pooled_error(np.full((3, 3), 3.5)), 0)

"""Tests by signs and ranks against published tables, scipy's exact tests and the counting of all patterns."""

from itertools import product
from operator import mul

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from headcount.sweeps.statistics import friedman, outperforming, rank_test_floor, sign_flip, signed_rank

# Hollander and Wolfe (1973), depression of nine patients before and after therapy
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])


def test_signed_ranks_of_the_depression_scores() -> None:
    found = signed_rank(BEFORE - AFTER)
    assert found is not None
    assert (found.positive, found.n, found.floor) == (40, 9, 2 / 2**9)
    assert found.p_higher == pytest.approx(0.01953125, abs=5e-12)
    assert found.p == pytest.approx(0.0390625, abs=5e-11)
    other = signed_rank(AFTER - BEFORE)
    assert other is not None
    assert (other.positive, other.p_lower, other.p) == (5, found.p_higher, found.p)


@pytest.mark.parametrize(("n", "floor"), [(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_neither_test_goes_below_its_floor(n: int, floor: float) -> None:
    deltas = [-0.01 - i / 1000 for i in range(n)]  # as clear as n pairs can be
    found = signed_rank(deltas)
    assert found is not None
    assert sign_flip(deltas) == found.p == found.floor == rank_test_floor(n) == floor
    assert found.p_lower == floor / 2


def test_the_sign_flip_test_is_scipys() -> None:
    rng = np.random.default_rng(1)
    for n in (3, 4, 6, 9):
        deltas = rng.normal(-0.5, 1, n)
        reference = stats.permutation_test(
            (deltas,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
        )
        assert sign_flip(deltas) == pytest.approx(reference.pvalue)
    assert sign_flip([]) is None


@pytest.mark.parametrize(
    "deltas", [(1, 2, -3), (1, 1, 3, -2, 3, 3, -2), (1, -2, 1, 3, -2, -1), (7, -7), (5, -4, -1, 6, -6)]
)
def test_the_sign_flip_test_counts_equal_sums_also_where_they_are_rounded(deltas: tuple[int, ...]) -> None:
    """In hundredths, whose sums are not whole: 0.01 + 0.02 − 0.03 is not 0."""
    sums = [abs(sum(map(mul, signs, deltas))) for signs in product((1, -1), repeat=len(deltas))]
    assert sign_flip([delta / 100 for delta in deltas]) == np.mean(np.array(sums) >= abs(sum(deltas)))


def test_signed_ranks_without_ties_are_scipys_also_with_many_pairs() -> None:
    rng = np.random.default_rng(2)
    for n in (1, 2, 7, 25, 50):
        deltas = rng.normal(0.3, 1, n)
        found = signed_rank(deltas)
        assert found is not None
        for mine, side in ((found.p, "two-sided"), (found.p_lower, "less"), (found.p_higher, "greater")):
            assert mine == pytest.approx(stats.wilcoxon(deltas, method="exact", alternative=side).pvalue)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=7))
def test_signed_ranks_with_zeros_and_ties_count_every_pattern(deltas: list[int]) -> None:
    found = signed_rank([float(d) for d in deltas])
    told = [d for d in deltas if d]
    if not told:
        assert found is None
        return
    ranks = stats.rankdata(np.abs(told))
    sums = np.array([ranks @ np.array(signs) for signs in product((0, 1), repeat=len(told))])
    positive = float(ranks @ (np.array(told) > 0))
    assert found is not None
    assert (found.positive, found.n) == (positive, len(told))
    assert found.p_lower == pytest.approx(np.mean(sums <= positive))
    assert found.p_higher == pytest.approx(np.mean(sums >= positive))
    assert found.floor <= found.p <= 1


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6), st.lists(st.integers(0, 5), min_size=1, max_size=6)
)
def test_outperforming_is_mann_and_whitneys_u_over_all_pairs(ours: list[int], theirs: list[int]) -> None:
    found = outperforming(np.array(ours, dtype=float), np.array(theirs, dtype=float))
    u = stats.mannwhitneyu(theirs, ours, method="asymptotic").statistic
    assert found == pytest.approx(u / (len(ours) * len(theirs)))
    other = outperforming(np.array(theirs, dtype=float), np.array(ours, dtype=float))
    assert other == pytest.approx(1 - (found or 0.0))
    assert outperforming([], [3.0]) is None


def test_friedman_of_ranks_with_ties_is_scipys_and_leaves_seeds_out_that_lack_a_level() -> None:
    table = np.random.default_rng(5).integers(0, 4, (4, 6)).astype(float)
    reference = stats.friedmanchisquare(*table[:, 1:])
    table[2, 0] = np.nan
    found = friedman(table)
    assert found is not None
    assert (found.statistic, found.p) == (pytest.approx(reference.statistic), pytest.approx(reference.pvalue))
    assert (found.df, found.seeds) == (3, 5)


def test_levels_that_do_not_differ_have_no_friedman() -> None:
    assert friedman(np.tile([3.6, 3.5, 3.7], (6, 1))) is None
    assert friedman(np.ones((2, 5)) * [[1.0], [2.0]]) is None
    assert friedman(np.arange(6.0)[:, None]) is None


def test_deltas_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"deltas\[1\] is nan"):
        signed_rank([0.1, float("nan")])

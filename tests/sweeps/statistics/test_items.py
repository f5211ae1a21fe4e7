from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import bootstrap, norm
from statsmodels.stats.contingency_tables import mcnemar as reference

from headcount.sweeps.statistics.items import item_difference, item_difference_of_pairs, mcnemar, sign_flip


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 3), (1, 0), (12, 4), (0, 9), (40, 61)])
def test_mcnemar_is_that_of_statsmodels_and_of_the_binomial(first: int, second: int) -> None:
    p = mcnemar(first, second)
    if first + second:
        assert p == pytest.approx(reference([[7, first], [second, 5]], exact=True).pvalue, rel=1e-12)
    n, most = first + second, min(first, second)
    tail = sum(comb(n, k) for k in range(most + 1)) / 2**n
    assert p == pytest.approx(min(1.0, 2 * tail), rel=1e-12)


@pytest.mark.parametrize(
    "sums", [[], [1], [1, 1, -1, 0], [2, -1, 1, 1], [3, 2, 2, -1, 0, 1], [2] * 5 + [-1] * 3]
)
def test_signs_are_flipped_in_every_way(sums: list[int]) -> None:
    """An item's answers at several seeds keep together: each of the 2^n flips of whole items is as likely."""
    flips = [
        sum(s * d for s, d in zip(signs, sums, strict=True)) for signs in product((1, -1), repeat=len(sums))
    ]
    expected = sum(abs(flip) >= abs(sum(sums)) for flip in flips) / len(flips)
    assert sign_flip(np.array(sums, dtype=np.int64)) == pytest.approx(expected, rel=1e-12)


def test_with_one_pair_it_is_mcnemar() -> None:
    for first, second in ((0, 0), (12, 4), (40, 61)):
        sums = np.array([1] * first + [-1] * second + [0] * 9, dtype=np.int64)
        assert sign_flip(sums) == pytest.approx(mcnemar(first, second), rel=1e-9)


def test_seeds_of_one_item_are_no_new_items() -> None:
    """Three seeds that answer alike say what one of them says, where pooling them would be sure."""
    first = {n: float(n < 15) for n in range(30)}
    second = {n: float(n < 9) for n in range(30)}
    one, three = (item_difference_of_pairs([(first, second)] * seeds) for seeds in (1, 3))
    assert one == item_difference(first, second) == three
    assert three.p == pytest.approx(2 / 2**6)
    assert mcnemar(18, 0) < 1e-5


def test_only_common_items_count_and_only_right_and_wrong_have_a_p() -> None:
    first = {0: 1.0, 1: 1.0, 2: 0.0, 3: 1.0, 9: 0.0}
    second = {0: 0.0, 1: 0.0, 2: 0.0, 3: 1.0, 7: 1.0}
    found = item_difference(first, second)
    assert (found.mean, found.n, found.p) == (0.5, 4, 0.5)
    assert item_difference({0: 1.5, 1: 2.0}, {0: 1.0, 1: 1.0}).p is None
    with pytest.raises(ValueError, match="no item in common"):
        item_difference({0: 1.0}, {1: 1.0})


def test_the_interval_is_that_of_scipy_and_of_the_normal() -> None:
    generator = np.random.default_rng(3)
    shared = generator.normal(size=400)
    first, second = shared + generator.normal(0.1, 0.3, 400), shared
    found = item_difference(dict(enumerate(first)), dict(enumerate(second)))
    deltas = first - second
    theirs = bootstrap(
        (deltas,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    error = deltas.std() / 20
    assert found.mean == pytest.approx(deltas.mean(), rel=1e-12)
    for end, their_end, side in ((found.low, theirs.low, -1), (found.high, theirs.high, 1)):
        assert end == pytest.approx(their_end, abs=0.08 * error)
        assert end == pytest.approx(deltas.mean() + side * norm.ppf(0.975) * error, abs=0.1 * error)

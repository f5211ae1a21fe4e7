from math import comb

import numpy as np
import pytest
from scipy.stats import bootstrap, norm
from statsmodels.stats.contingency_tables import mcnemar as reference

from headcount.sweeps.statistics.items import item_difference, mcnemar


@pytest.mark.parametrize(("first", "second"), [(0, 0), (3, 3), (1, 0), (12, 4), (0, 9), (40, 61)])
def test_mcnemar_is_that_of_statsmodels_and_of_the_binomial(first: int, second: int) -> None:
    p = mcnemar(first, second)
    if first + second:
        assert p == pytest.approx(reference([[7, first], [second, 5]], exact=True).pvalue, rel=1e-12)
    n, most = first + second, min(first, second)
    tail = sum(comb(n, k) for k in range(most + 1)) / 2**n
    assert p == pytest.approx(min(1.0, 2 * tail), rel=1e-12)


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

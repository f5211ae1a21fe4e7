"""Corrected families against Benjamini and Hochberg's example and statsmodels."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from headcount.sweeps.statistics import (
    benjamini_hochberg,
    benjamini_yekutieli,
    holm,
    mean_estimate,
    simultaneous,
)
from headcount.sweeps.statistics.student import t_estimate

# Benjamini and Hochberg (1995), section 3
BH_1995 = [
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
    *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
]
P_VALUES = {f"cell {number}": p for number, p in enumerate(BH_1995)}


def test_holm_of_the_1995_example() -> None:
    family = holm("all against control", P_VALUES)
    assert (family.name, family.method, family.size) == ("all against control", "holm", 15)
    members = list(family.members.values())
    assert sum(member.rejected for member in members) == 3
    assert [m.adjusted_p for m in members[:4]] == pytest.approx([0.0015, 0.0056, 0.0247, 0.114])


def test_benjamini_hochberg_of_the_1995_example() -> None:
    members = list(benjamini_hochberg("screen", P_VALUES).members.values())
    assert sum(member.rejected for member in members) == 4
    assert [m.adjusted_p for m in members[:5]] == pytest.approx([0.0015, 0.003, 0.0095, 0.035625, 0.0603])


def test_benjamini_yekutieli_and_bonferroni_of_the_1995_example() -> None:
    members = benjamini_yekutieli("screen", P_VALUES).members.values()
    assert sum(member.rejected for member in members) == 3
    at_once = [simultaneous(t_estimate(stats.t.isf(p / 2, 9), 1.0, 9), 15) for p in BH_1995]
    assert sum(estimate.p is not None and estimate.p <= 0.05 for estimate in at_once) == 3


@pytest.mark.parametrize(
    ("correct", "method"),
    [(holm, "holm"), (benjamini_hochberg, "fdr_bh"), (benjamini_yekutieli, "fdr_by")],
)
def test_any_order_and_ties_as_statsmodels(correct: type, method: str) -> None:
    p = np.random.default_rng(0).random(40).round(2) ** 3
    reject, adjusted, _, _ = multipletests(p, 0.05, method)
    family = correct("f", {str(number): value for number, value in enumerate(p)})
    assert [m.adjusted_p for m in family.members.values()] == pytest.approx(adjusted.tolist())
    assert [m.rejected for m in family.members.values()] == reject.tolist()


def test_members_without_a_p_count() -> None:
    family = holm("f", {"a": 0.02, "b": None, "c": 0.3})
    assert family.size == 3
    assert family.members["a"].adjusted_p == pytest.approx(0.06)
    assert not family.members["a"].rejected
    assert (family.members["b"].adjusted_p, family.members["b"].rejected) == (None, False)
    assert holm("empty", {}).members == {}


def test_an_interval_for_all_at_once_is_bonferronis() -> None:
    values = np.array([-0.05, -0.04, -0.06, -0.03])
    found = simultaneous(mean_estimate(values), 15)
    low, high = stats.t.interval(1 - 0.05 / 15, 3, values.mean(), stats.sem(values))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.p == pytest.approx(15 * stats.ttest_1samp(values, 0).pvalue)
    assert found.confidence == 0.95
    assert (found.p <= 0.05) == (found.high < 0)
    assert simultaneous(mean_estimate([1.0, -1.1]), 15).p == 1
    alone = mean_estimate([-0.05])
    assert simultaneous(alone, 15) is alone
    with pytest.raises(ValueError, match="comparisons must be at least 1, but is 0"):
        simultaneous(alone, 0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"p of 'H=4' in the family 'heads' must be in \[0, 1\], but is nan"):
        holm("heads", {"H=4": float("nan")})
    with pytest.raises(ValueError, match=r"alpha must be between 0 and 1, like 0.05, but is 5"):
        holm("heads", {}, alpha=5)

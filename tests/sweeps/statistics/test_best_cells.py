"""The best-cell set and regrets, against bounds written out by hand."""

import numpy as np
import pytest
from scipy import stats

from headcount.sweeps.statistics import best_cells, rule_regret

CURVE = np.array(
    [
        [3.606, 3.523, 3.475, 3.462, 3.495, 3.563],
        [3.596, 3.519, 3.465, 3.458, 3.487, 3.557],
        [3.600, 3.518, 3.470, 3.460, 3.487, 3.559],
    ]
).T


def test_best_heads_of_the_curve() -> None:
    best = best_cells(CURVE)
    assert best.lowest == 3
    assert [s.may_be_best for s in best.standings] == [False, False, True, True, False, False]
    # H 4 − H 8: deltas .013 .007 .010, one-sided bounds shared by 5 comparisons
    reach = stats.t.isf(0.05 / 5, 2) * 0.003 / 3**0.5
    four, eight = best.standings[2:4]
    assert (four.low, four.high) == pytest.approx((0.010 - reach, 0.010 + reach))
    assert (eight.low, eight.high) == pytest.approx((-0.010 - reach, -0.010 + reach))
    assert best.standings[0].low == 0
    assert four.mean == pytest.approx(3.47)


def test_regret_of_a_rule() -> None:
    r = rule_regret(CURVE, 4)  # H 16, against H 8: deltas .033 .029 .027
    deltas = np.array([0.033, 0.029, 0.027])
    reach = stats.t.isf(0.025 / 5, 2) * deltas.std(ddof=1) / 3**0.5
    assert (r.rule, r.best, r.seeds) == (4, 3, 3)
    assert r.mean == pytest.approx(deltas.mean())
    assert r.low == pytest.approx(deltas.mean() - reach)
    assert r.high == pytest.approx(deltas.mean() + reach)


def test_the_best_has_no_regret_but_a_bound_on_it() -> None:
    r = rule_regret(CURVE, 3)
    assert (r.best, r.mean, r.low) == (3, 0, 0)
    assert r.high == pytest.approx(stats.t.isf(0.025 / 5, 2) * 0.003 / 3**0.5 - 0.010)


def test_equal_cells_have_exactly_no_regret() -> None:
    same = np.tile([3.6, 3.5, 3.7], (3, 1))
    r = rule_regret(same, 0)
    assert (r.mean, r.low, r.high) == (0, 0, 0)
    assert all(s.may_be_best and s.low == s.high == 0 for s in best_cells(same).standings)


def test_one_seed_leaves_everything_open() -> None:
    best = best_cells(CURVE[:, :1])
    assert best.lowest == 3
    assert all(s.may_be_best and s.low is None and s.high is None for s in best.standings)
    r = rule_regret(CURVE[:, :1], 4)
    assert (r.mean, r.low, r.high, r.seeds) == (pytest.approx(0.033), 0, None, 1)


def test_cells_are_compared_at_common_seeds() -> None:
    # seed 2 is hard; cell 1 has it and cell 0 has not, yet cell 1 is better at every common seed
    table = np.array([[3.00, 3.10, np.nan], [2.99, 3.08, 3.90], [np.nan, np.nan, np.nan]])
    best = best_cells(table)
    assert best.lowest == 1
    assert (best.standings[2].mean, best.standings[2].may_be_best) == (None, True)
    assert best.standings[1].mean == pytest.approx(np.mean([2.99, 3.08, 3.90]))
    assert rule_regret(table, 0).best == 1
    assert rule_regret(table, 0).seeds == 2


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 × 1 entries"):
        best_cells(CURVE[:1])
    with pytest.raises(ValueError, match="no cell has a loss"):
        best_cells(np.full((2, 2), np.nan))
    with pytest.raises(ValueError, match="the rule's cell, row 6 of 6, has no loss"):
        rule_regret(CURVE, 6)

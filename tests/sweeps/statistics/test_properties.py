"""What holds of every table: closed forms, and answers that shift, scale and order leave alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from headcount.sweeps.statistics import (
    best_cells,
    holm,
    mean_estimate,
    paired_delta,
    pooled_delta,
    pooled_error,
    rule_regret,
    selection_bias,
    simultaneous,
    smallest_difference,
    stein_estimate,
    u_shape,
    variance_components,
)
from headcount.sweeps.statistics.power import power

quickly = settings(max_examples=40, deadline=None, derandomize=True)


@st.composite
def tables(draw: st.DrawFn, cells: int = 2) -> np.ndarray:
    """Losses, cells × seeds, that vary in every cell; whole thousandths around 3."""
    shape = draw(st.tuples(st.integers(cells, 6), st.integers(2, 6)))
    steps = draw(arrays(np.int64, shape, elements=st.integers(-500, 500)))
    bent = steps + np.arange(shape[1]) ** 2 * np.arange(1, shape[0] + 1)[:, None]
    return 3 + bent / 1000 + np.random.default_rng(0).normal(0, 1e-3, shape)


def by_seed(losses: np.ndarray) -> dict[int, float]:
    return dict(enumerate(losses.tolist()))


@quickly
@given(tables(), st.floats(-2, 2), st.floats(0.01, 100))
def test_a_shared_effect_of_seeds_and_the_unit_change_no_test(
    table: np.ndarray, shift: float, unit: float
) -> None:
    seeds = np.sin(np.arange(table.shape[1])) * shift
    for moved, scale in ((table + seeds, 1.0), (table * unit, unit)):
        own, other = (paired_delta(by_seed(t[1]), by_seed(t[0])) for t in (table, moved))
        pooled, others = (pooled_delta(pooled_error(t), 1, 0) for t in (table, moved))
        for before, after in ((own, other), (pooled, others)):
            assert after.p == pytest.approx(before.p, rel=1e-5, abs=1e-9)
            assert after.mean == pytest.approx((before.mean or 0.0) * scale, rel=1e-6, abs=1e-9 * scale)


@quickly
@given(tables())
def test_a_balanced_pooled_error_is_the_closed_form_of_blocks(table: np.ndarray) -> None:
    cells, seeds = table.shape
    left = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
    pooled = pooled_error(table)
    assert pooled.df == (cells - 1) * (seeds - 1)
    assert pooled.sd == pytest.approx(np.sqrt((left**2).sum() / pooled.df), rel=1e-6)
    delta = pooled_delta(pooled, cells - 1, 0)
    assert delta.mean == pytest.approx(table[-1].mean() - table[0].mean(), abs=1e-9)
    assert delta.se == pytest.approx((pooled.sd or 0.0) * np.sqrt(2 / seeds), rel=1e-6)
    found = variance_components(table)
    assert found is not None
    between = cells * table.mean(0).var(ddof=1)
    assert found.residual_variance == pytest.approx((pooled.sd or 0.0) ** 2, rel=1e-6)
    assert found.seed_variance == pytest.approx(
        max(0.0, (between - found.residual_variance) / cells), rel=1e-5, abs=1e-9
    )
    assert found.f == pytest.approx(seeds * table.mean(1).var(ddof=1) / found.residual_variance, rel=1e-5)


@quickly
@given(tables(cells=3))
def test_the_order_of_cells_and_seeds_changes_no_answer(table: np.ndarray) -> None:
    rows = np.random.default_rng(1).permutation(len(table))
    columns = np.random.default_rng(2).permutation(table.shape[1])
    best, moved = best_cells(table), best_cells(table[rows][:, columns])
    for place, row in enumerate(rows.tolist()):
        one, other = best.standings[row], moved.standings[place]
        assert other.may_be_best == one.may_be_best
        assert (other.low or 0.0, other.high or 0.0) == (
            pytest.approx(one.low or 0.0, abs=1e-9),
            pytest.approx(one.high or 0.0, abs=1e-9),
        )
    assert any(standing.may_be_best for standing in best.standings)


@quickly
@given(tables(cells=3))
def test_a_regret_is_never_below_0_and_its_interval_holds_its_mean(table: np.ndarray) -> None:
    for rule in range(len(table)):
        regret = rule_regret(table, rule)
        assert 0 <= regret.low <= max(regret.mean, 0.0) + 1e-12
        assert regret.high is None or regret.high >= regret.mean - 1e-12
        assert regret.mean == pytest.approx(table[rule].mean() - table.mean(1).min(), abs=1e-9)


@quickly
@given(tables(cells=3), st.floats(0.001, 0.5))
def test_a_u_is_claimed_only_where_both_ends_lie_above(table: np.ndarray, alpha: float) -> None:
    levels = [2.0**i for i in range(len(table))]
    found = u_shape(levels, table, ends=[levels[0], levels[-1]], middle=[levels[1]], alpha=min(alpha, 0.49))
    for contrast, row in zip(found.ends, (0, -1), strict=True):
        reference = stats.ttest_1samp(table[row] - table[1], 0, alternative="greater")
        assert contrast.p == pytest.approx(reference.pvalue, rel=1e-6)
        assert not found.u_shaped or contrast.rise.mean > 0
    upturned = u_shape(levels, -table, ends=[levels[0], levels[-1]], middle=[levels[1]])
    assert not (found.u_shaped and upturned.u_shaped)


@quickly
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=12))
def test_holm_lies_between_each_p_and_bonferroni_and_keeps_their_order(p_values: list[float | None]) -> None:
    members = holm("f", {str(i): p for i, p in enumerate(p_values)}).members.values()
    told = sorted((m.p, m.adjusted_p) for m in members if m.p is not None and m.adjusted_p is not None)
    for p, adjusted in told:
        assert p <= adjusted <= min(1.0, len(p_values) * p) + 1e-12
    assert [adjusted for _, adjusted in told] == sorted(adjusted for _, adjusted in told)


@quickly
@given(st.lists(st.floats(-1, 1), min_size=3, max_size=9), st.integers(1, 30))
def test_intervals_and_p_say_the_same(values: list[float], comparisons: int) -> None:
    for estimate in (mean_estimate(values), stein_estimate(values, 3)):
        if estimate.p is None or not 1e-9 < estimate.p < 0.99:
            continue
        at_once = simultaneous(estimate, comparisons)
        for one in (estimate, at_once):
            assert one.low is not None
            assert one.high is not None
            assert one.p is not None
            if abs(one.p - 0.05) > 1e-9:
                assert (one.p < 0.05) == (one.low > 0 or one.high < 0)
        assert at_once.p == min(1.0, comparisons * estimate.p)


@quickly
@given(st.integers(2, 40), st.integers(1, 40), st.floats(0.2, 0.95))
def test_the_smallest_difference_is_found_as_often_as_it_says(
    n: int, comparisons: int, target: float
) -> None:
    found = smallest_difference(n**-0.5, n - 1, comparisons=comparisons, target=target)
    assert power(found, n**-0.5, n - 1, comparisons=comparisons) == pytest.approx(target, abs=1e-6)


@quickly
@given(st.integers(1, 30))
def test_choosing_among_more_rates_flatters_more(choices: int) -> None:
    assert 0 <= selection_bias(choices) < selection_bias(choices + 1) < (2 * np.log(choices + 1)) ** 0.5 + 0.1

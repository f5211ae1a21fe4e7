"""Each spread by its formula, over losses 3.40, 3.44, 3.48 and control losses 3.50, 3.52, 3.54."""

import pytest
from sqlalchemy.orm import Session
from table_rows import row

from headcount.api.results import ablation_table, paired_statistics
from headcount.dashboard.figures.bars import SPREADS, Bars, Measure, Spread, bars

SEEDS = {0: 3.40, 1: 3.44, 2: 3.48}
T = 4.302653  # of 2 degrees of freedom, 97.5 %
T_OF_4 = 8.860200  # 1 − 0.05 / 8: two-sided, for 4 cells at once


def half(measure: Measure, spread: Spread) -> float:
    bar = Bars(measure, spread, "", 0.95, 4, {}).of(row(2, SEEDS))
    assert bar is not None
    assert bar.low is not None
    assert bar.high is not None
    assert bar.mean == pytest.approx(3.44 if measure == "loss" else -0.08)
    assert bar.mean - bar.low == pytest.approx(bar.high - bar.mean)
    return bar.high - bar.mean


def test_the_spreads_of_a_loss() -> None:
    se = 0.04 / 3**0.5
    assert half("loss", "sd") == pytest.approx(0.04)
    assert half("loss", "se") == pytest.approx(se)
    assert half("loss", "t") == pytest.approx(T * se, rel=1e-6)
    assert half("loss", "simultaneous") == pytest.approx(T_OF_4 * se, rel=1e-6)


def test_the_spreads_of_a_delta() -> None:
    """Deltas −0.10, −0.08, −0.06."""
    se = 0.02 / 3**0.5
    assert half("delta", "sd") == pytest.approx(0.02)
    assert half("delta", "se") == pytest.approx(se)
    assert half("delta", "t") == pytest.approx(T * se, rel=1e-6)


def test_one_seed_has_a_mean_and_no_bar() -> None:
    for spread in SPREADS:
        assert Bars("loss", spread, "", 0.95, 4, {}).of(row(2, {1: 3.3})) == (3.3, None, None)
        assert Bars("delta", spread, "", 0.95, 4, {}).of(row(2, {1: 3.3})) == (
            pytest.approx(-0.22),
            None,
            None,
        )


def test_simultaneous_intervals_of_deltas_are_those_of_the_headline(session: Session) -> None:
    table = ablation_table(session, "head-count")
    statistics = paired_statistics(table)
    chosen = bars(table, statistics, "delta", "simultaneous")
    assert chosen.words == "95\u00a0% intervals of all 15 comparisons at once (Bonferroni)"
    for comparison in statistics.comparisons:
        told = comparison.simultaneous
        assert told is not None
        assert chosen.of(table.row(comparison.cell)) == (told.mean, told.low, told.high)


def test_each_measure_has_its_own_bars_by_default(session: Session) -> None:
    table = ablation_table(session, "head-count")
    statistics = paired_statistics(table)
    assert bars(table, statistics, "loss").words == "± 1 standard error between seeds"
    assert bars(table, statistics, "delta").words == "95\u00a0% t\u00a0interval, paired by seed"

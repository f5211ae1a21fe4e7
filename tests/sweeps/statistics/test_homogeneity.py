"""The check of one variance: its level and power by simulation, and what it refuses to vouch for."""

import numpy as np
import pytest

from headcount.sweeps.statistics import check_homogeneity
from headcount.sweeps.statistics.layout import block_layout


def noise(sds: list[float], seeds: int, number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    return 3 + rng.normal(size=seeds) * 0.1 + rng.normal(size=(len(sds), seeds)) * np.array(sds)[:, None]


def test_alarm_rate_is_alpha_with_and_without_missing_seeds() -> None:
    for missing in ((), (0, 0), (2, 1)):
        verdicts = []
        for number in range(600):
            table = noise([0.01] * 6, 5, number)
            table[missing and missing[:1], missing and missing[1:]] = np.nan
            verdicts.append(check_homogeneity(table).verdict)
        assert verdicts.count("heterogeneous") / 600 == pytest.approx(0.2, abs=0.05)
        assert verdicts.count("homogeneous") / 600 == pytest.approx(0.8, abs=0.05)


def test_a_noisy_cell_is_noticed_as_often_as_power_says() -> None:
    checks = [check_homogeneity(noise([0.01] * 5 + [0.04], 5, number)) for number in range(600)]
    assert checks[0].power is not None
    assert checks[0].power > 0.8
    found = np.mean([check.verdict == "heterogeneous" for check in checks])
    assert found == pytest.approx(checks[0].power, abs=0.05)


def test_published_spreads_are_never_vouched_for_at_three_seeds() -> None:
    verdicts = {check_homogeneity(noise([0.015, 0.049, 0.002], 3, number)).verdict for number in range(100)}
    assert "homogeneous" not in verdicts
    check = check_homogeneity(noise([0.01] * 3, 3, 0))
    assert check.verdict == "undecided"
    assert check.reason is not None
    assert check.reason.startswith("would notice a cell with 4 times the spread only 1")


def test_same_table_same_answer() -> None:
    table = noise([0.01] * 6, 5, 0)
    assert check_homogeneity(table) == check_homogeneity(table)


def test_what_cannot_be_checked_is_undecided() -> None:
    two = check_homogeneity(noise([0.01, 0.01], 8, 0))
    assert (two.verdict, two.p) == ("undecided", None)
    equal = check_homogeneity(np.full((4, 5), 3.25))
    assert (equal.verdict, equal.reason) == ("undecided", "the losses do not vary beyond cell and seed")
    assert check_homogeneity(np.full((4, 5), np.nan)).verdict == "undecided"


def test_a_cell_without_any_error_is_noticed() -> None:
    table = noise([0.01] * 6, 5, 0)
    table[5] = table[:5].mean(axis=0) + 0.1  # no residual: parallel to the others' mean
    assert check_homogeneity(table).verdict == "heterogeneous"


def test_p_and_power_are_those_of_the_draws_that_the_docstring_names() -> None:
    table = noise([0.01] * 30, 5, 0)
    table[0, 0] = table[3, 1:3] = np.nan
    present = ~np.isnan(table)
    nu = present.sum(1) - 1.0

    def statistic(losses: np.ndarray) -> np.ndarray:
        squares = (block_layout(present).residuals(losses) ** 2).sum(-1)
        return nu.sum() * np.log(squares.sum(-1) / nu.sum()) - (nu * np.log(squares / nu)).sum(-1)

    rng = np.random.default_rng(0)
    draws = rng.standard_normal((1000, *table.shape))
    null = statistic(draws)
    draws[np.arange(1000), rng.choice(30, 1000)] *= 4
    check = check_homogeneity(table)
    assert check.statistic == pytest.approx(float(statistic(table)), rel=1e-12)
    assert check.p == (1 + np.sum(null >= statistic(table))) / 1001
    assert check.power == np.mean(statistic(draws) > np.quantile(null, 0.8))

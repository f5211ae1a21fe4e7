import pytest

from headcount.dashboard.figures.smoothing import ema


def test_each_value_is_a_weighted_mean_of_those_before() -> None:
    """At weight 1/2 the weights of 1, 2, 4 are 1, 2 and 4 sevenths, the newest the heaviest."""
    assert ema([8.0, 4.0, 2.0], 0.5) == pytest.approx([8.0, (8 + 2 * 4) / 3, (8 + 2 * 4 + 4 * 2) / 7])


def test_a_constant_stays_and_a_gap_stays_a_gap() -> None:
    assert ema([3.0, None, 3.0], 0.97) == [pytest.approx(3.0), None, pytest.approx(3.0)]
    assert ema([1.0, 5.0], 0.0) == [1.0, 5.0]

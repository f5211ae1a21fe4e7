"""The compute-equivalent gain in closed form."""

from math import exp

import pytest

from headcount.sweeps.statistics import compute_gain


def test_the_worked_example() -> None:
    found = compute_gain(3.50, -0.02, exponent=0.05, irreducible=1.7, low=-0.03, high=-0.01)
    assert found.gain == pytest.approx(1.25040, abs=5e-6)
    assert exp(0.02 / (0.05 * 1.8)) == pytest.approx(1.24885, abs=5e-6)  # its first order
    assert compute_gain(3.50, -0.02, exponent=0.05, irreducible=2.0).gain == pytest.approx(1.30795, abs=5e-6)
    assert found.low == pytest.approx((1.8 / 1.79) ** 20)
    assert found.high == pytest.approx((1.8 / 1.77) ** 20)
    assert (found.exponent, found.irreducible) == (0.05, 1.7)


def test_no_interval_and_no_law_are_no_numbers() -> None:
    found = compute_gain(3.5, 0.02, exponent=0.05, irreducible=1.7)
    assert (found.low, found.high) == (None, None)
    assert found.gain < 1
    with pytest.raises(ValueError, match=r"losses above E = 3\.6"):
        compute_gain(3.5, -0.02, exponent=0.05, irreducible=3.6)
    with pytest.raises(ValueError, match="exponent 0"):
        compute_gain(3.5, -0.02, exponent=0, irreducible=1.7)

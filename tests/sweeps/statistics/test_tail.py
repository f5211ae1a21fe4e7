"""Errors inside one job, against closed forms of autoregressive series."""

import numpy as np
import pytest

from headcount.sweeps.statistics import tail_error, window_error
from headcount.sweeps.statistics.tail import ar1_inflation


@pytest.mark.parametrize(
    ("n", "rho", "inflation", "effective"),
    [(10, 0.5, 2.6004, 3.846), (10, 0.9, 7.2762, 1.374), (20, 0.9, 11.0942, 1.803), (5, 0.5, 2.2250, 2.247)],
)
def test_ar1_inflation(n: int, rho: float, inflation: float, effective: float) -> None:
    assert ar1_inflation(n, rho) == pytest.approx(inflation, abs=5e-5)
    assert n / ar1_inflation(n, rho) == pytest.approx(effective, abs=5e-4)


def test_inflation_is_the_variance_of_the_mean() -> None:
    k = np.arange(12)
    covariance = 0.7 ** np.abs(k[:, None] - k)
    assert ar1_inflation(12, 0.7) == pytest.approx(covariance.sum() / 12)


def test_long_series_recover_their_error() -> None:
    rng = np.random.default_rng(0)
    y = np.zeros(20_000)
    for step, shock in enumerate(rng.normal(size=19_999)):
        y[step + 1] = 0.8 * y[step] + shock
    e = tail_error(3 - 1e-6 * np.arange(20_000) + 0.001 * y)
    assert e.autocorrelation == pytest.approx(0.8, abs=0.02)
    assert e.sd == pytest.approx(0.001 / 0.6, rel=0.05)
    assert e.se == pytest.approx(0.001 / 0.2 / 20_000**0.5, rel=0.1)
    assert e.effective_n == pytest.approx(20_000 / 9, rel=0.15)


def test_a_straight_fall_is_no_noise() -> None:
    e = tail_error(3.5 - 0.25 * np.arange(11))
    assert (e.mean, e.n) == (2.25, 11)
    assert e.se == pytest.approx(0, abs=1e-12)


def test_window_error_is_over_windows_of_the_mean_over_evaluations() -> None:
    losses = np.array([[3.0, 3.2, 3.4], [3.2, 3.2, 3.8]])
    e = window_error(losses)
    assert e.mean == pytest.approx(3.3)
    assert e.n == 3
    assert e.sd == pytest.approx(np.std([3.1, 3.2, 3.6], ddof=1))


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 6 evaluations, but there are 5"):
        tail_error([3.0] * 5)
    with pytest.raises(ValueError, match=r"evaluations × windows, but have shape \(3,\)"):
        window_error(np.zeros(3))
    with pytest.raises(ValueError, match=r"n ≥ 1 and \|ρ\| < 1"):
        ar1_inflation(10, 1.0)

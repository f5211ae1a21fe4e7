"""The fitted scaling law, against laws that the runs were made by."""

import numpy as np
import pytest

from headcount.sweeps.statistics.resampling import drawn_cells
from headcount.sweeps.statistics.scaling import FittedGain, Law, Laws, bootstrap_laws, fit_law

COMPUTES = [1e17, 3e17, 1e18, 3e18, 1e19, 3e19]


def losses(computes: list[float], sd: float = 0.0, seed: int = 0) -> list[float]:
    """L = 1.7 + 1.5 · (C / 1e18)^−0.15."""
    noise = np.random.default_rng(seed).normal(0, sd, len(computes)) if sd else np.zeros(len(computes))
    return [1.7 + 1.5 * (c / 1e18) ** -0.15 + n for c, n in zip(computes, noise, strict=True)]


def gain(laws: Laws, compute: float, of_cell: list[float], *, seed: int = 0) -> FittedGain:
    [found] = laws.gains([compute], drawn_cells([of_cell], len(laws.resampled), seed=seed))
    return found


def test_runs_that_follow_a_law_give_it_back() -> None:
    law = fit_law(COMPUTES, losses(COMPUTES))
    assert law.irreducible == pytest.approx(1.7, abs=2e-3)
    assert law.exponent == pytest.approx(0.15, abs=1e-3)
    for compute in COMPUTES:
        assert law.loss(compute) == pytest.approx(losses([compute])[0], abs=1e-4)
        assert law.compute_for(law.loss(compute)) == pytest.approx(compute, rel=1e-9)


def test_one_wild_run_hardly_moves_the_law() -> None:
    wild = losses(COMPUTES * 3)
    wild[4] += 1.0
    assert fit_law(COMPUTES * 3, wild).exponent == pytest.approx(0.15, abs=0.01)


def test_what_no_compute_reaches_and_what_lies_outside() -> None:
    law = Law(irreducible=2.0, coefficient=1.0, exponent=0.5, scale=100.0, computes=(10.0, 1000.0))
    assert law.loss(400.0) == pytest.approx(2.5)
    assert law.compute_for(2.5) == pytest.approx(400.0)
    assert law.compute_for(2.0) is None
    assert [law.extrapolates(c) for c in (9.0, 10.0, 1000.0, 1001.0)] == [True, False, False, True]


def test_the_gain_of_a_method_that_saves_a_third_of_the_compute() -> None:
    """Its loss at C is the control's at 1.5 C."""
    runs = COMPUTES * 3
    laws = bootstrap_laws(runs, losses(runs, sd=1e-3), resamples=60)
    found = gain(laws, 2e18, losses([3e18] * 4, sd=1e-3, seed=5))
    assert found.gain == pytest.approx(1.5, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.5 < found.high < 1.65
    assert not found.extrapolated
    assert laws == bootstrap_laws(runs, losses(runs, sd=1e-3), resamples=60)


def test_the_gap_to_the_law_has_an_interval_as_the_law_itself_has() -> None:
    runs = COMPUTES * 3
    laws = bootstrap_laws(runs, losses(runs, sd=1e-3), resamples=60)
    better = [loss - 0.01 for loss in losses([2e18] * 4, sd=1e-3, seed=5)]
    [gap, outside] = laws.gaps([2e18, 6e19], drawn_cells([better] * 2, 60))
    assert gap.mean == pytest.approx(-0.01, abs=2e-3)
    assert gap.low < -0.01 < gap.high < 0
    assert (gap.extrapolated, outside.extrapolated) == (False, True)
    for (low, high), true in ((laws.exponent_interval, 0.15), (laws.irreducible_interval, 1.7)):
        assert low < true < high


def test_a_gain_beyond_the_fitted_computes_says_so() -> None:
    laws = bootstrap_laws(COMPUTES, losses(COMPUTES), resamples=3)
    assert gain(laws, 3e19, losses([6e19])).extrapolated
    below = gain(laws, 3e19, [1.0])
    assert (below.gain, below.low, below.high, below.extrapolated) == (None, None, None, True)


def test_the_interval_covers_the_truth_with_three_seeds() -> None:
    """Of 24 studies of a method without effect, whose intervals are of 95 %: plain resampling of three jobs a
    cell covers it in 3 of 4."""
    runs = COMPUTES * 3
    covered = 0
    for study in range(24):
        laws = bootstrap_laws(runs, losses(runs, sd=2e-3, seed=study), resamples=25, seed=study)
        found = gain(laws, 1e18, losses([1e18] * 3, sd=2e-3, seed=1000 + study), seed=study)
        covered += found.low is not None and found.high is not None and found.low <= 1 <= found.high
    assert covered >= 21


def test_too_little_to_fit() -> None:
    with pytest.raises(ValueError, match="needs 4 different computes or more, but the runs have 3"):
        fit_law([1.0, 2.0, 3.0, 3.0], [3.0, 2.9, 2.8, 2.8])
    with pytest.raises(ValueError, match=r"1\.5 times the least or more, but the runs have 1\.3 times"):
        fit_law([1.0, 1.1, 1.2, 1.3], [3.0, 2.9, 2.8, 2.8])
    with pytest.raises(ValueError, match="above 0"):
        fit_law([1.0, 2.0, 3.0, 0.0], [3.0, 2.9, 2.8, 2.8])

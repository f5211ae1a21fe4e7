"""Many fits at once, against the same fits one by one with L-BFGS-B."""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from headcount.sweeps.statistics import least_huber
from headcount.sweeps.statistics.least_huber import best_fit, fit_alone, fits_from
from headcount.sweeps.statistics.log_sums import LogSum
from headcount.sweeps.statistics.resampling import drawn_again

Array = NDArray[np.float64]
BOUNDS = {3: np.array([-12.0, -np.inf, 1e-4]), 5: np.array([-12.0, -np.inf, -np.inf, 1e-4, 1e-4])}
STARTS = {
    3: np.array(list(product((-1.0, 0.5), (0.0, 3.0), (0.05, 0.2, 0.5)))),
    5: np.array(list(product((-1.0, 0.5), (-1.0,), (-1.0,), (0.2, 0.5), (0.2, 0.5)))),
}


def of_compute(
    *, sd: float, settings: int = 6, runs: int = 3, reach: float = 2.5, floor: float = 1.7, wild: int = 0
) -> tuple[LogSum, Array]:
    """Runs of E + 1.5 · x^−0.15 over `reach` decades of compute, and how many of them were spoilt."""
    x = np.repeat(np.linspace(-reach / 2, reach / 2, settings) * np.log(10), runs)
    generator = np.random.default_rng(3)
    losses = floor + 1.5 * np.exp(-0.15 * x) + generator.normal(0, sd, len(x))
    losses[generator.choice(len(x), wild, replace=False)] += generator.normal(0, 0.3, wild)
    points, setting = np.unique(x, return_inverse=True)
    return LogSum((0, 1, 1), np.stack([np.ones_like(points)] * 2 + [-points]), setting), losses


def of_size(*, sd: float, wild: int = 0) -> tuple[LogSum, Array]:
    """Three runs at each of four sizes and amounts of data, of Hoffmann et al.'s exponents."""
    points = np.array(list(product((-3.0, -1.0, 1.0, 3.0), repeat=2)))
    setting = np.repeat(np.arange(len(points)), 3)
    generator = np.random.default_rng(4)
    exact = 1.69 + 0.5 * np.exp(-0.34 * points[:, 0]) + 0.65 * np.exp(-0.28 * points[:, 1])
    losses = exact[setting] + generator.normal(0, sd, len(setting))
    losses[generator.choice(len(setting), wild, replace=False)] += 0.3
    one = np.ones(len(points))
    return LogSum((0, 1, 2, 1, 2), np.stack([one, one, one, *-points.T]), setting), losses


SETS = {
    "little noise": of_compute(sd=1e-3),
    "noise far beyond the delta": of_compute(sd=0.05),
    "few runs": of_compute(sd=0.02, settings=4),
    "wild runs": of_compute(sd=2e-3, wild=4),
    "no floor": of_compute(sd=2e-3, floor=0.0),
    "many runs": of_compute(sd=0.01, settings=8, runs=25),
    "size and data": of_size(sd=1e-3),
    "size and data, noise": of_size(sd=0.02),
    "size and data, wild runs": of_size(sd=1e-3, wild=6),
}


@pytest.mark.parametrize("name", list(SETS))
def test_each_of_many_fits_is_what_it_is_alone_or_nearer_to_the_least(name: str) -> None:
    law, losses = SETS[name]
    size = len(law.summands)
    start = best_fit(law, np.log(losses), STARTS[size], BOUNDS[size])
    drawn = np.log(drawn_again(law.setting, losses, 25, np.random.default_rng(0)))
    together = fits_from(law, drawn, start, BOUNDS[size])
    alone = np.stack([fit_alone(law, one, start, BOUNDS[size]) for one in drawn])
    assert (together >= BOUNDS[size]).all()
    misfits = law.misfit(together, drawn).value
    misfits_alone = law.misfit(alone, drawn).value
    assert (misfits <= misfits_alone + 1e-9).all()
    close = misfits_alone - misfits < 1e-7
    assert close.sum() >= 10
    predicted = [np.exp(law.exponents(fits[close])).sum(axis=1) for fits in (together, alone)]
    assert predicted[0] == pytest.approx(predicted[1], rel=2e-5)


@pytest.mark.parametrize("name", list(SETS))
def test_the_best_of_many_starts_is_that_of_the_starts_one_by_one(name: str) -> None:
    law, losses = SETS[name]
    size = len(law.summands)
    found = best_fit(law, np.log(losses), STARTS[size], BOUNDS[size])
    alone = np.stack([fit_alone(law, np.log(losses), start, BOUNDS[size]) for start in STARTS[size]])
    of_alone = law.misfit(alone, np.tile(np.log(losses), (len(alone), 1))).value
    gained = of_alone.min() - float(law.misfit(found[None], np.log(losses)[None]).value[0])
    assert gained > -1e-9
    if gained < 1e-7:
        assert found == pytest.approx(alone[np.argmin(of_alone)], rel=2e-3, abs=1e-5)


def test_runs_that_hardly_tell_the_parameters_apart_are_fitted_better_together() -> None:
    """Compute varies twofold: the exponent may be anything from 0.07 to 0.5."""
    law, losses = of_compute(sd=5e-3, reach=0.3)
    start = best_fit(law, np.log(losses), STARTS[3], BOUNDS[3])
    drawn = np.log(drawn_again(law.setting, losses, 12, np.random.default_rng(0)))
    together = law.misfit(fits_from(law, drawn, start, BOUNDS[3]), drawn).value
    alone = law.misfit(np.stack([fit_alone(law, one, start, BOUNDS[3]) for one in drawn]), drawn).value
    assert (together <= alone + 1e-9).all()
    assert (together < alone - 1e-6).sum() >= 2


def test_fits_that_do_not_converge_are_made_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_huber, "STEPS", 0)
    law, losses = SETS["little noise"]
    start = best_fit(law, np.log(losses), STARTS[3], BOUNDS[3])
    assert start[2] == pytest.approx(0.15, abs=0.01)
    drawn = np.log(drawn_again(law.setting, losses, 4, np.random.default_rng(0)))
    alone = [fit_alone(law, one, start, BOUNDS[3]) for one in drawn]
    assert fits_from(law, drawn, start, BOUNDS[3]).tolist() == np.stack(alone).tolist()

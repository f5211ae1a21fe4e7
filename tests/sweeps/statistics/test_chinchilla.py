"""The law of size and data: Hoffmann et al.'s own figures, and runs that follow it."""

from itertools import product

import numpy as np
import pytest

from headcount.sweeps.statistics.chinchilla import ChinchillaLaw, bootstrap_chinchilla, fit_chinchilla
from headcount.sweeps.statistics.resampling import drawn_cells

PUBLISHED = ChinchillaLaw(
    irreducible=1.69,
    size_coefficient=406.4,
    data_coefficient=410.7,
    size_exponent=0.34,
    data_exponent=0.28,
)
RUNS = list(product([4e7, 1e8, 4e8, 1e9, 4e9], [1e9, 3e9, 1e10, 3e10, 1e11]))
SIZES, TOKENS = [n for n, _ in RUNS], [d for _, d in RUNS]


def losses(sd: float = 0.0, seed: int = 0, repeats: int = 1) -> list[float]:
    noise = np.random.default_rng(seed).normal(0, sd, len(RUNS) * repeats) if sd else np.zeros(len(RUNS))
    exact = [PUBLISHED.loss(n, d) for n, d in RUNS] * repeats
    return [loss + float(n) for loss, n in zip(exact, noise, strict=True)]


def test_chinchilla_and_gopher_by_the_published_law() -> None:
    assert PUBLISHED.size_term(70e9) == pytest.approx(0.083487, abs=5e-7)
    assert PUBLISHED.data_term(1.4e12) == pytest.approx(0.163158, abs=5e-7)
    assert PUBLISHED.loss(70e9, 1.4e12) == pytest.approx(1.936645, abs=5e-7)
    assert PUBLISHED.loss(280e9, 300e9) == pytest.approx(1.993258, abs=5e-7)


def test_runs_that_follow_the_published_law_give_its_figures_back() -> None:
    law = fit_chinchilla(SIZES, TOKENS, losses())
    assert law.loss(70e9, 1.4e12) == pytest.approx(1.936645, abs=5e-7)
    assert law.loss(280e9, 300e9) == pytest.approx(1.993258, abs=5e-7)
    assert law.irreducible == pytest.approx(1.69, abs=1e-5)
    assert (law.size_exponent, law.data_exponent) == (
        pytest.approx(0.34, abs=1e-3),
        pytest.approx(0.28, abs=1e-3),
    )
    for n, d in RUNS:
        assert law.loss(n, d) == pytest.approx(PUBLISHED.loss(n, d), abs=1e-4)
        assert law.tokens_for(law.loss(n, d), n) == pytest.approx(d, rel=1e-6)
    assert law.tokens_for(law.irreducible + law.size_term(1e8) - 1e-9, 1e8) is None
    assert ChinchillaLaw(1.7, 400, 400, 0.3, 1e-4).tokens_for(1.8, 1e30) is None


def test_the_gain_of_a_method_that_saves_a_third_of_the_tokens() -> None:
    """Its loss at D is the control's at 1.5 D, at the same size."""
    laws = bootstrap_chinchilla(SIZES * 3, TOKENS * 3, losses(1e-3, repeats=3), resamples=30)
    better = [PUBLISHED.loss(4e8, 1.5e10) + noise for noise in (-1e-3, 0.0, 1e-3)]
    jobs = [(4e8, 1e10), (4e8, 1e11), (8e9, 1e10), (4e8, 1e10)]
    cells = drawn_cells([better, [PUBLISHED.loss(4e8, 1.5e11)], better, [1.0]], 30)
    found, longer, larger, lower = laws.token_gains(jobs, cells)
    assert found.gain == pytest.approx(1.5, rel=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.5 < found.high < 1.65
    assert not found.extrapolated
    assert (longer.extrapolated, larger.extrapolated) == (True, True)
    assert (lower.gain, lower.low, lower.high) == (None, None, None)
    for name in ("irreducible", "size_exponent", "data_exponent"):
        low, high = laws.interval(name)
        assert low < getattr(laws.law, name) < high
        assert high - low < 0.15


def test_too_little_to_tell_size_from_data() -> None:
    with pytest.raises(ValueError, match="3 amounts of data or more, but the runs have 5 and 1"):
        fit_chinchilla(SIZES, [1e9] * len(RUNS), losses())
    grown = [20 * n for n in SIZES]
    with pytest.raises(ValueError, match="vary apart, but the runs have them grow together"):
        fit_chinchilla(SIZES, grown, losses())
    with pytest.raises(ValueError, match="above 0 for every run"):
        fit_chinchilla([0.0, *SIZES[1:]], TOKENS, losses())

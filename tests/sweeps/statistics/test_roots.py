"""Roots, against those that are known."""

import subprocess
import sys
from collections.abc import Callable
from math import cos, exp, pi, tanh

import pytest

from headcount.sweeps.statistics.roots import root


@pytest.mark.parametrize(
    ("function", "low", "high", "expected"),
    [
        (lambda x: x**3 - 2, 0, 2, 2 ** (1 / 3)),
        (cos, 0, 3, pi / 2),
        (lambda x: exp(x) - exp(11), -50, 50, 11),
        (lambda x: tanh(50 * (x - 0.3)), -10, 10, 0.3),
        (lambda x: (x - 1) ** 9, 0, 3.3, 1),
        (lambda x: 1 / x - 1e-6, 1, 1e9, 1e6),
        (lambda x: -x, -3, 0, 0),
        (lambda x: x, 0, 3, 0),
        (lambda x: 1 if x > 0.2 else -1, 0, 1, 0.2),
    ],
    ids=["cubic", "cosine", "steep", "step", "flat", "far", "end", "beginning", "jump"],
)
def test_the_root_is_found(
    function: Callable[[float], float], low: float, high: float, expected: float
) -> None:
    assert root(function, low, high) == pytest.approx(expected, rel=2e-15, abs=1e-15)


def test_signs_must_differ() -> None:
    with pytest.raises(ValueError, match="5 at 2 and 10 at 3 do not"):
        root(lambda x: x * x + 1, 2, 3)


def test_no_statistic_of_a_table_loads_what_takes_a_quarter_of_a_second() -> None:
    asked = """
import sys
import numpy as np
from headcount.sweeps.statistics import *
from headcount.sweeps.statistics.scaling import bootstrap_laws
losses = np.random.default_rng(0).normal(3, 0.01, (10, 4))
dunnett_deltas(pooled_error(losses), 0)
check_homogeneity(losses)
assert moderated_deltas(losses * np.arange(1, 11)[:, None] ** 2, range(10)).prior_df < 99
smallest_difference(1.0, 3)
selection_bias(5)
interquartile_mean([1.0, 2.0, 3.0, 4.0])
variance_components(losses)
signed_rank(losses[0]), friedman(losses)
u_shape([1, 2, 4], losses[:3], ends=[1, 4], middle=[2], flat_margin=0.01)
parabola([1, 2, 4], losses[:3])
bootstrap_laws([1, 2, 4, 8] * 2, [3.1, 2.9, 2.75, 2.7, 3.12, 2.91, 2.76, 2.69], resamples=20)
print(sorted({"scipy.optimize", "scipy.integrate", "scipy.stats"} & set(sys.modules)))
"""
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"

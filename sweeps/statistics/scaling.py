"""A scaling law fitted to one's own runs: L = E + A · C^−α, loss L against compute C."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

import numpy as np

from .layout import Array
from .least_huber import best_fit, fits_from
from .log_sums import LogSum
from .resampling import Cells, drawn_again, middle, middles

FEWEST_COMPUTES = 4
"""Different amounts of compute: the law has three parameters."""

LEAST_SPAN = 1.5
"""The most compute in the least: speeds of equal jobs differ by a few percent, and say nothing of a law."""

_BOUNDS = np.array([-12.0, -np.inf, 1e-4])
"""Of log E, log A and α: runs that show no floor leave E at nearly 0."""

_STARTS = np.array(list(product((-1.0, 0.5), (0.0, 3.0), (0.05, 0.2, 0.5))))


@dataclass(frozen=True)
class Law:
    """`compute` may be in any unit: it is the one of the runs that were fitted."""

    irreducible: float
    """E."""
    coefficient: float
    """A, at the geometric mean of the fitted computes: the loss above E there."""
    exponent: float
    """α."""
    scale: float
    """That mean."""
    computes: tuple[float, float]
    """The least and the most that were fitted: outside them the law extrapolates."""

    def loss(self, compute: float) -> float:
        return self.irreducible + self.coefficient * float((compute / self.scale) ** -self.exponent)

    def compute_for(self, loss: float) -> float | None:
        """What the law needs for this loss; None where that is more than a number holds, and at E and below,
        which no compute reaches."""
        if loss <= self.irreducible:
            return None
        try:
            return self.scale * float((self.coefficient / (loss - self.irreducible)) ** (1 / self.exponent))
        except OverflowError:
            return None

    def extrapolates(self, compute: float) -> bool:
        return not self.computes[0] <= compute <= self.computes[1]


def fit_law(computes: Sequence[float], losses: Sequence[float]) -> Law:
    """The law of least Huber loss between log L and the logarithm of its prediction, the best of many starts.

    Raises ValueError unless there are four different computes, the largest 1.5 times the least, all above 0
    as the losses are.
    """
    x, y = _checked(computes, losses)
    [law] = _laws(x, best_fit(_log_sum(x), np.log(y), _STARTS, _BOUNDS)[None])
    return law


@dataclass(frozen=True)
class FittedGain:
    """Compute-equivalent gain of one treatment: the control's compute for its loss, over its own."""

    gain: float | None
    """None where the loss is at or below the law's E."""
    low: float | None
    high: float | None
    """The middle 95 % over resampled runs; None where an end is not finite."""
    extrapolated: bool
    """Whether the control's compute for this loss lies outside the computes that were fitted."""


@dataclass(frozen=True)
class FittedGap:
    """A treatment's mean loss less the law's at the same compute: negative is better."""

    mean: float
    low: float
    high: float
    """The middle 95 % over resampled runs."""
    extrapolated: bool
    """Whether this compute lies outside those that were fitted."""


@dataclass(frozen=True)
class Laws:
    """A law and those of resampled runs, which tell how well the runs fix it."""

    law: Law
    resampled: tuple[Law, ...]

    @cached_property
    def _columns(self) -> "_Columns":
        names = ("irreducible", "coefficient", "exponent", "scale")
        return _Columns(*(np.array([getattr(law, name) for law in self.resampled]) for name in names))

    @property
    def exponent_interval(self) -> tuple[float, float]:
        """The middle 95 % of α over resampled runs."""
        return middle([law.exponent for law in self.resampled])

    @property
    def irreducible_interval(self) -> tuple[float, float]:
        """The same of E."""
        return middle([law.irreducible for law in self.resampled])

    def gaps(self, computes: Sequence[float], cells: Cells) -> list[FittedGap]:
        """How far each cell, whose jobs take one of `computes`, lies from the law there."""
        x = np.asarray(computes, dtype=float)
        low, high = middles(cells.drawn - self._columns.losses(x[:, None]))
        return [
            FittedGap(mean - self.law.loss(compute), worst, best, self.law.extrapolates(compute))
            for compute, mean, worst, best in zip(computes, cells.means, low, high, strict=True)
        ]

    def gains(self, computes: Sequence[float], cells: Cells) -> list[FittedGain]:
        """What each cell is worth, whose jobs take one of `computes`."""
        x = np.asarray(computes, dtype=float)
        low, high = middles(self._columns.computes_for(cells.drawn) / x[:, None])
        found = []
        for compute, mean, worst, best in zip(computes, cells.means, low, high, strict=True):
            needed = self.law.compute_for(mean)
            found.append(
                FittedGain(
                    gain=None if needed is None else needed / compute,
                    low=finite(worst),
                    high=finite(best),
                    extrapolated=needed is None or self.law.extrapolates(needed),
                )
            )
        return found


class _Columns(NamedTuple):
    """Many laws at once, as arrays of their numbers."""

    irreducible: Array
    coefficient: Array
    exponent: Array
    scale: Array

    def losses(self, computes: Array) -> Array:
        return self.irreducible + self.coefficient * (computes / self.scale) ** -self.exponent

    def computes_for(self, losses: Array) -> Array:
        """What each law needs for its loss; infinity where `Law.compute_for` has none."""
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            ratio = self.coefficient / (losses - self.irreducible)
            needs = self.scale * ratio ** (1 / self.exponent)
        return np.where(losses > self.irreducible, needs, np.inf)


def finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def bootstrap_laws(
    computes: Sequence[float], losses: Sequence[float], *, resamples: int = 200, seed: int = 0
) -> Laws:
    """The law of the runs, and of runs resampled within each compute. Raises ValueError as `fit_law`."""
    x, y = _checked(computes, losses)
    form = _log_sum(x)
    whole = best_fit(form, np.log(y), _STARTS, _BOUNDS)
    drawn = drawn_again(form.setting, y, resamples, np.random.default_rng(seed))
    law, *resampled = _laws(x, np.vstack([whole, fits_from(form, np.log(drawn), whole, _BOUNDS)]))
    return Laws(law, tuple(resampled))


def _checked(computes: Sequence[float], losses: Sequence[float]) -> tuple[Array, Array]:
    x, y = np.asarray(computes, dtype=float), np.asarray(losses, dtype=float)
    if x.shape != y.shape or not ((x > 0) & (y > 0)).all():
        raise ValueError("a scaling law needs a compute above 0 and a loss above 0 for every run")
    if len(set(x.tolist())) < FEWEST_COMPUTES:
        raise ValueError(
            f"a scaling law has three parameters and needs {FEWEST_COMPUTES} different computes or more, "
            f"but the runs have {len(set(x.tolist()))}"
        )
    if x.max() < LEAST_SPAN * x.min():
        raise ValueError(
            f"a scaling law needs a largest compute of {LEAST_SPAN:g} times the least or more, but the runs "
            f"have {x.max() / x.min():.3g} times"
        )
    return x, y


def _log_sum(x: Array) -> LogSum:
    """Of the parameters log E, log A and α, where A is the loss above E at the mean compute."""
    computes, setting = np.unique(x, return_inverse=True)
    one = np.ones_like(computes)
    return LogSum((0, 1, 1), np.stack([one, one, -np.log(computes / _mean(x))]), setting)


def _laws(x: Array, parameters: Array) -> list[Law]:
    """Those of fits (F, 3)."""
    scale, computes = _mean(x), (float(x.min()), float(x.max()))
    terms = np.exp(parameters[:, :2]).tolist()
    return [
        Law(e, a, alpha, scale, computes)
        for (e, a), alpha in zip(terms, parameters[:, 2].tolist(), strict=True)
    ]


def _mean(x: Array) -> float:
    """The geometric one."""
    return float(np.exp(np.log(x).mean()))

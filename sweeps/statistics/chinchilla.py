"""The scaling law with a term for the model's size and one for its data: L = E + A / N^α + B / D^β.

Hoffmann et al. (2022), "Chinchilla", appendix D.3. Five parameters take more runs than a law of compute, and
their published intervals were far too narrow (Besiroglu et al. 2024): these are of resampled runs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from .layout import Array
from .least_huber import best_fit, fits_from
from .log_sums import LogSum
from .resampling import Cells, drawn_again, middle, middles
from .scaling import FittedGain, finite

FEWEST_LEVELS = 3
"""Different sizes, and amounts of data: with two of each, the parameters cannot be told apart."""

_BOUNDS = np.array([-12.0, -np.inf, -np.inf, 1e-4, 1e-4])
"""Of log E, log A, log B, α and β: runs that show no floor leave E at nearly 0."""

_STARTS = np.array(list(product((-1.0, 0.5), (-1.0,), (-1.0,), (0.2, 0.5), (0.2, 0.5))))


@dataclass(frozen=True)
class ChinchillaLaw:
    """Of N parameters and D tokens of training."""

    irreducible: float
    """E."""
    size_coefficient: float
    """A."""
    data_coefficient: float
    """B."""
    size_exponent: float
    """α."""
    data_exponent: float
    """β."""

    def size_term(self, parameters: float) -> float:
        """What a larger model could still gain, A / N^α."""
        return self.size_coefficient * float(parameters**-self.size_exponent)

    def data_term(self, tokens: float) -> float:
        """What more data could still gain, B / D^β."""
        return self.data_coefficient * float(tokens**-self.data_exponent)

    def loss(self, parameters: float, tokens: float) -> float:
        return self.irreducible + self.size_term(parameters) + self.data_term(tokens)

    def tokens_for(self, loss: float, parameters: float) -> float | None:
        """What a model of this size needs for this loss; None where that is more than a number holds, and
        where no amount of data reaches it."""
        left = loss - self.irreducible - self.size_term(parameters)
        if left <= 0:
            return None
        try:
            return float((self.data_coefficient / left) ** (1 / self.data_exponent))
        except OverflowError:
            return None


@dataclass(frozen=True)
class ChinchillaLaws:
    """A law and those of resampled runs, which tell how well the runs fix it."""

    law: ChinchillaLaw
    resampled: tuple[ChinchillaLaw, ...]
    sizes: tuple[float, float]
    """The least and the most parameters that were fitted."""
    tokens: tuple[float, float]
    """The same of tokens: outside either the law extrapolates."""

    def interval(self, name: str) -> tuple[float, float]:
        """The middle 95 % of a field of the law, such as "size_exponent", over resampled runs."""
        return middle([getattr(law, name) for law in self.resampled])

    def token_gains(self, jobs: Sequence[tuple[float, float]], cells: Cells) -> list[FittedGain]:
        """The tokens that a control of a cell's size needs for its loss, over its own: a job's parameters and
        tokens are given for each cell.

        At one size compute is proportional to tokens, so that this is also a compute-equivalent gain.
        """
        n, d = np.array(jobs, dtype=float).reshape(-1, 2).T[:, :, None]
        low, high = middles(self._tokens_for(cells.drawn, n) / d)
        found = []
        for (size, amount), mean, worst, best in zip(jobs, cells.means, low, high, strict=True):
            needed = self.law.tokens_for(mean, size)
            inside = self.sizes[0] <= size <= self.sizes[1]
            found.append(
                FittedGain(
                    gain=None if needed is None else needed / amount,
                    low=finite(worst),
                    high=finite(best),
                    extrapolated=needed is None
                    or not inside
                    or not self.tokens[0] <= needed <= self.tokens[1],
                )
            )
        return found

    def _tokens_for(self, losses: Array, parameters: Array) -> Array:
        """What each resampled law needs, (cells, laws); infinity where no amount reaches the loss."""
        names = ("irreducible", "size_coefficient", "size_exponent", "data_coefficient", "data_exponent")
        e, a, alpha, b, beta = (np.array([getattr(law, name) for law in self.resampled]) for name in names)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            left = losses - e - a * parameters**-alpha
            return np.where(left > 0, (b / left) ** (1 / beta), np.inf)


def fit_chinchilla(
    parameters: Sequence[float], tokens: Sequence[float], losses: Sequence[float]
) -> ChinchillaLaw:
    """The law of least Huber loss between log L and the logarithm of its prediction, the best of many starts.

    Raises ValueError unless there are three sizes and three amounts of data that do not just grow together.
    """
    n, d, y = _checked(parameters, tokens, losses)
    [law] = _laws(n, d, best_fit(_log_sum(n, d), np.log(y), _STARTS, _BOUNDS)[None])
    return law


def bootstrap_chinchilla(
    parameters: Sequence[float],
    tokens: Sequence[float],
    losses: Sequence[float],
    *,
    resamples: int = 200,
    seed: int = 0,
) -> ChinchillaLaws:
    """The law of the runs, and of runs resampled within each size and amount of data.

    Raises ValueError as `fit_chinchilla`.
    """
    n, d, y = _checked(parameters, tokens, losses)
    form = _log_sum(n, d)
    whole = best_fit(form, np.log(y), _STARTS, _BOUNDS)
    drawn = drawn_again(form.setting, y, resamples, np.random.default_rng(seed))
    law, *resampled = _laws(n, d, np.vstack([whole, fits_from(form, np.log(drawn), whole, _BOUNDS)]))
    return ChinchillaLaws(law, tuple(resampled), (n.min(), n.max()), (d.min(), d.max()))


def _checked(
    parameters: Sequence[float], tokens: Sequence[float], losses: Sequence[float]
) -> tuple[Array, Array, Array]:
    n, d, y = (np.asarray(values, dtype=float) for values in (parameters, tokens, losses))
    if not n.shape == d.shape == y.shape or not ((n > 0) & (d > 0) & (y > 0)).all():
        raise ValueError("a law of size and data needs parameters, tokens and a loss above 0 for every run")
    sizes, amounts = len(set(n.tolist())), len(set(d.tolist()))
    if min(sizes, amounts) < FEWEST_LEVELS:
        raise ValueError(
            f"a law of size and data needs {FEWEST_LEVELS} different sizes and {FEWEST_LEVELS} amounts of "
            f"data or more, but the runs have {sizes} and {amounts}"
        )
    if np.linalg.matrix_rank(np.stack([np.ones_like(n), np.log(n), np.log(d)]), tol=1e-6) < 3:
        raise ValueError(
            "a law of size and data needs them to vary apart, but the runs have them grow together"
        )
    return n, d, y


def _center(values: Array) -> float:
    return float(np.exp(np.log(values).mean()))


def _log_sum(n: Array, d: Array) -> LogSum:
    """Of the parameters log E, log A, log B, α and β, around the geometric means of N and D, where the
    coefficients are losses.
    """
    settings, setting = np.unique(np.stack([n, d], axis=1), axis=0, return_inverse=True)
    one = np.ones(len(settings))
    factors = [one, one, one, *-np.log(settings / [_center(n), _center(d)]).T]
    return LogSum((0, 1, 2, 1, 2), np.stack(factors), setting.reshape(-1))


def _laws(n: Array, d: Array, parameters: Array) -> list[ChinchillaLaw]:
    """Those of fits (F, 5)."""
    e, a, b, alpha, beta = parameters.T
    sizes, amounts = np.exp(a) * _center(n) ** alpha, np.exp(b) * _center(d) ** beta
    fields = np.stack([np.exp(e), sizes, amounts, alpha, beta], axis=1)
    return [ChinchillaLaw(*of_fit) for of_fit in fields.tolist()]

"""The logarithm of a sum of powers against losses: its Huber misfit and derivatives, of many fits."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .layout import Array

HUBER_DELTA = 1e-3
"""Residuals of log loss beyond it count by their length, not its square (Hoffmann et al. 2022,
appendix D.3)."""


class Misfit(NamedTuple):
    """Of F fits, and what their derivatives are made of; S settings, K summands."""

    value: Array
    """(F,), the mean Huber loss in units of `HUBER_DELTA`²."""
    shares: Array
    """(F, K, S), of each summand in the predicted sum."""
    pull: Array
    """(F, S), the derivative of the value by the predicted logarithm at a setting."""
    stiffness: Array
    """(F, S), the second derivative by it."""

    def where(self, chosen: NDArray[np.bool_], other: "Misfit") -> "Misfit":
        """This one's fits where `chosen`, and the other's elsewhere."""
        pairs = zip(self, other, strict=True)
        return Misfit(*(np.where(chosen.reshape(-1, *[1] * (a.ndim - 1)), a, b) for a, b in pairs))

    def of(self, fits: NDArray[np.bool_]) -> "Misfit":
        return Misfit(*(values[fits] for values in self))


@dataclass(frozen=True)
class LogSum:
    """log Σ exp(z) at each setting: a summand's z is the sum of its parameters, each times its factor.

    L = E + A · x^−α has the parameters log E, log A and α, in the summands 0, 1 and 1, with the factors 1, 1
    and −log x.
    """

    summands: tuple[int, ...]
    """Of each of P parameters, from 0 on."""
    factors: Array
    """(P, S)."""
    setting: NDArray[np.intp]
    """Of each run."""

    def misfit(self, parameters: Array, log_losses: Array) -> Misfit:
        """Of F fits (F, P), each to losses of its own (F, runs)."""
        z = self.exponents(parameters)
        top = z.max(axis=1)
        powers = np.exp(z - top[:, None])
        total = powers.sum(axis=1)
        residual = np.take(top + np.log(total), self.setting, axis=1)
        residual -= log_losses
        residual /= HUBER_DELTA
        slope = np.clip(residual, -1, 1)
        runs = len(self.setting)
        value = np.einsum("fr,fr->f", slope, residual) - np.einsum("fr,fr->f", slope, slope) / 2
        pull = slope @ self._of_setting / (runs * HUBER_DELTA)
        # in place: a third array of this size makes the allocator fetch and return memory at each call
        inside = np.equal(slope, residual, out=slope)
        stiffness = inside @ self._of_setting / (runs * HUBER_DELTA**2)
        return Misfit(value / runs, powers / total[:, None], pull, stiffness)

    def exponents(self, parameters: Array) -> Array:
        """z of each summand, (F, K, S): linear in the parameters (F, P)."""
        z: Array = (parameters @ self._weights).reshape(len(parameters), -1, self.factors.shape[1])
        return z

    def slopes(self, found: Misfit) -> Array:
        """Of the predicted logarithm by each parameter, (F, P, S)."""
        slopes: Array = found.shares[:, self.summands] * self.factors
        return slopes

    def gradient(self, found: Misfit, slopes: Array) -> Array:
        """Of the misfit, (F, P)."""
        gradient: Array = (slopes @ found.pull[:, :, None])[:, :, 0]
        return gradient

    def hessian(self, found: Misfit, slopes: Array) -> Array:
        """(F, P, P). The predicted logarithm has the second derivatives Σ share·z'·z' − slope·slope."""
        fits, parameters, _ = slopes.shape
        pulled = (found.shares * found.pull[:, None]).reshape(fits, -1) @ self._products
        weights = (found.stiffness - found.pull)[:, None]
        hessian: Array = (slopes * weights) @ slopes.transpose(0, 2, 1)
        hessian += pulled.reshape(fits, parameters, parameters)
        return hessian

    def bend(self, found: Misfit, steps: Array) -> Array:
        """Second derivative of the predicted logarithm along steps (F, P), (F, S)."""
        z = self.exponents(steps)
        mean = (found.shares * z).sum(axis=1)
        bend: Array = (found.shares * z**2).sum(axis=1) - mean**2
        return bend

    @cached_property
    def _weights(self) -> Array:
        """(P, K · S): a parameter's factors in the columns of its summand."""
        parameters, settings = self.factors.shape
        weights = np.zeros((parameters, max(self.summands) + 1, settings))
        weights[np.arange(parameters), self.summands] = self.factors
        return weights.reshape(parameters, -1)

    @cached_property
    def _products(self) -> Array:
        """(K · S, P · P): of the factors of two parameters of one summand."""
        products = self._weights.T[:, :, None] * self._weights.T[:, None, :]
        return products.reshape(len(products), -1)

    @cached_property
    def _of_setting(self) -> Array:
        """(runs, S): 1 where a run is of the setting."""
        return np.eye(self.factors.shape[1])[self.setting]

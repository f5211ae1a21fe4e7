"""Laws of least Huber misfit to runs: one from several starts, or many at once, of runs drawn again.

The least need not be one place: two runs of a setting that lie further apart than twice `HUBER_DELTA` pull
alike on every law between them. The law is then one of those, the first that was met.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .layout import Array
from .log_sums import LogSum, Misfit
from .trust_region import lengths, next_steps

STEPS = 400
"""At most; a law that its runs tell well takes 5 to 10."""
PATIENCE = 3
"""Steps that the other starts of a fit have to come below one that has converged."""
TOLERANCE = 1e-10
"""Of the misfit, and of 1 if that is more: a step that promises and gains less is the last."""

_RADIUS = 0.5
_LEAST_RADIUS = 1e-10


def best_fit(law: LogSum, log_losses: Array, starts: Array, bounds: Array) -> Array:
    """The parameters (P,) of the least misfit to one set of losses (runs,), of those from starts (S, P).

    No parameter goes below its bound (P,), which may be −∞.
    """
    losses = np.tile(log_losses, (len(starts), 1))
    parameters, converged = _descended(law, losses, starts, bounds, patience=PATIENCE)
    if converged.any():
        parameters, losses = parameters[converged], losses[converged]
    else:
        parameters = np.stack([fit_alone(law, log_losses, start, bounds) for start in starts])
    best: Array = parameters[np.argmin(law.misfit(parameters, losses).value)]
    return best


def fits_from(law: LogSum, log_losses: Array, start: Array, bounds: Array) -> Array:
    """The parameters (F, P) for each of many sets of losses (F, runs), all from one start (P,)."""
    parameters, converged = _descended(law, log_losses, np.tile(start, (len(log_losses), 1)), bounds)
    for fit in np.flatnonzero(~converged):
        alone = fit_alone(law, log_losses[fit], start, bounds)
        both = np.stack([alone, parameters[fit]])
        parameters[fit] = both[np.argmin(law.misfit(both, log_losses[[fit, fit]]).value)]
    return parameters


def fit_alone(law: LogSum, log_losses: Array, start: Array, bounds: Array) -> Array:
    """One fit (P,), by L-BFGS-B: slower, and less near to the minimum where that lies in a flat valley."""
    from scipy.optimize import minimize

    def misfit(parameters: Array) -> tuple[float, Array]:
        found = law.misfit(parameters[None], log_losses[None])
        return float(found.value[0]), law.gradient(found, law.slopes(found))[0]

    limits = [(bound if np.isfinite(bound) else None, None) for bound in bounds.tolist()]
    fitted: Array = minimize(misfit, start, jac=True, bounds=limits, method="L-BFGS-B").x
    return fitted


class _Running(NamedTuple):
    """Fits that have not converged yet."""

    fit: NDArray[np.intp]
    log_losses: Array
    at: Array
    radius: Array
    found: Misfit

    def of(self, some: NDArray[np.bool_]) -> "_Running":
        fit, log_losses, at, radius, found = self
        return _Running(fit[some], log_losses[some], at[some], radius[some], found.of(some))


def _descended(
    law: LogSum, log_losses: Array, starts: Array, bounds: Array, *, patience: int = STEPS
) -> tuple[Array, NDArray[np.bool_]]:
    """The parameters (F, P), and which fits have converged.

    Fits that are no better than one that has converged are given up after `patience` more steps.
    """
    at = np.maximum(starts, bounds)
    parameters, converged = at.copy(), np.zeros(len(at), dtype=bool)
    running = _Running(
        np.arange(len(at)), log_losses, at, np.full(len(at), _RADIUS), law.misfit(at, log_losses)
    )
    least, since = np.inf, 0
    for _ in range(STEPS):
        step, promised = next_steps(law, running.found, running.at, running.radius, bounds)
        running, gained = _gone(law, running, step, promised)
        parameters[running.fit] = running.at
        small = TOLERANCE * np.maximum(running.found.value, 1)
        over = (promised <= small) & (gained <= small)
        left = ~over & (running.radius > _LEAST_RADIUS)
        if over.any():
            converged[running.fit[over]] = True
            least = min(least, float(running.found.value[over].min()))
        since += least < np.inf
        if since > patience:
            left &= running.found.value < least
        if not left.all():
            running = running.of(left)
        if not left.any():
            break
    return parameters, converged


def _gone(law: LogSum, running: _Running, step: Array, promised: Array) -> tuple[_Running, Array]:
    """One step further where that is better, with the radius that it has earned, and what it gained."""
    tried = law.misfit(running.at + step, running.log_losses)
    gained = running.found.value - tried.value
    better = gained > 0
    length = lengths(step)
    kept = gained / np.where(promised > 0, promised, np.inf)
    longer = np.where((kept > 0.75) & (length > 0.8 * running.radius), 2 * running.radius, running.radius)
    gone = running._replace(
        at=np.where(better[:, None], running.at + step, running.at),
        radius=np.where(kept < 0.25, 0.25 * length, longer),
        found=tried.where(better, running.found),
    )
    return gone, gained

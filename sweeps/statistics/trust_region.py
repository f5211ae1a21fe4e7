"""Steps down the misfits of many fits at once, each within a radius of its own.

Newton's in a trust region (Nocedal and Wright 2006, chapter 4), with the geodesic acceleration of Transtrum
and Sethna (2012): where the runs hardly tell parameters apart, the misfit lies in a long bent valley, along
which straight steps are short.
"""

import numpy as np
from numpy.typing import NDArray

from .layout import Array
from .log_sums import LogSum, Misfit

FEW = 48
"""Matrices whose axes are found as fast as it is told which of them need them."""
BENT = 0.75
"""Twice the acceleration may be this much of the step; beyond it the third derivatives matter."""


def next_steps(law: LogSum, found: Misfit, at: Array, radius: Array, bounds: Array) -> tuple[Array, Array]:
    """The next steps, (F, P), and how much of the misfit each promises to take off, (F,)."""
    slopes = law.slopes(found)
    gradient, hessian = law.gradient(found, slopes), law.hessian(found, slopes)
    at_bound = at <= bounds
    fixed = at_bound & (gradient > 0)
    for _ in range(at.shape[1]):
        free = np.where(fixed, 0, gradient)
        inner = _without(hessian, fixed) if fixed.any() else hessian
        damped, step = _within(inner, free, radius)
        outward = at_bound & (step < 0) & ~fixed
        if not outward.any():
            break
        fixed |= outward
    bend = np.where(fixed, 0, (slopes @ (found.stiffness * law.bend(found, step))[:, :, None])[:, :, 0])
    turn = np.asarray(np.linalg.solve(damped, bend[:, :, None])[:, :, 0] / -2, dtype=np.float64)
    slight = 2 * lengths(turn) <= BENT * lengths(step)
    slight &= ~(at_bound & (step + turn < 0)).any(axis=1)
    turned = np.where(slight[:, None], step + turn, step)
    share = _share_to_bound(at, turned, bounds)
    linear = (gradient * step).sum(axis=1)
    square = (step[:, None] @ hessian @ step[:, :, None])[:, 0, 0]
    return np.maximum(share[:, None] * turned, bounds - at), -share * linear - share**2 * square / 2


def lengths(steps: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("fp,fp->f", steps, steps)), dtype=np.float64)


def _share_to_bound(at: Array, step: Array, bounds: Array) -> Array:
    """How much of each step can be gone."""
    room = np.where(step < 0, bounds - at, -np.inf)
    share: Array = np.divide(room, step, where=step < 0, out=np.ones_like(step)).min(axis=1)
    return np.minimum(share, 1)


def _without(hessian: Array, fixed: NDArray[np.bool_]) -> Array:
    """With the fixed parameters apart from the others, and stiff."""
    stiff = np.eye(hessian.shape[1]) * np.abs(hessian).max(axis=(1, 2), keepdims=True)
    return np.where(fixed[:, :, None] | fixed[:, None, :], stiff, hessian)


def _within(hessian: Array, gradient: Array, radius: Array) -> tuple[Array, Array]:
    """Each matrix with what damps it, and the step that it gives: Newton's own where that leads down and not
    beyond the radius, and the best of that length elsewhere.
    """
    identity = np.eye(hessian.shape[1])
    if len(hessian) <= FEW:
        damping, step = _damped(hessian, gradient, radius)
        return hessian + damping[:, None, None] * identity, step
    minors = [np.linalg.det(hessian[:, :size, :size]) > 0 for size in range(1, hessian.shape[1] + 1)]
    plain = np.logical_and.reduce(minors)
    damped, step = hessian.copy(), np.empty_like(gradient)
    step[plain] = -np.linalg.solve(hessian[plain], gradient[plain, :, None])[:, :, 0]
    plain[plain] = lengths(step[plain]) <= radius[plain]
    if not plain.all():
        hard = ~plain
        damping, step[hard] = _damped(hessian[hard], gradient[hard], radius[hard])
        damped[hard] += damping[:, None, None] * identity
    return damped, step


def _damped(hessian: Array, gradient: Array, radius: Array) -> tuple[Array, Array]:
    """The least damping that keeps a step within its radius, and the step, by the matrix's own axes."""
    curvature, axes = np.linalg.eigh(hessian)
    along = (gradient[:, None] @ axes)[:, 0]
    damping = np.maximum(0, 1e-12 * np.abs(curvature).max(axis=1) + 1e-12 - curvature[:, 0])
    for _ in range(8):  # Newton's method for 1 / length: it comes from below, and settles in a few
        raised = curvature + damping[:, None]
        step = along / raised
        length = lengths(step)
        long = length > 1.05 * radius
        if not long.any():
            break
        change = (length / radius - 1) * length**2 / np.maximum((step**2 / raised).sum(axis=1), 1e-300)
        damping = np.where(long, damping + change, damping)
    step = along / (curvature + damping[:, None])
    length = lengths(step)
    step *= np.minimum(1, radius / np.maximum(length, 1e-300))[:, None]
    return damping, -(axes @ step[:, :, None])[:, :, 0]

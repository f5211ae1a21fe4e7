"""When a job evaluates, and the one number it reports: the tail mean. Imports without torch."""

import math
from collections.abc import Sequence

FEWEST = 3
"""Evaluations of a tail; fewer say too little of their own noise."""


def evaluation_steps(steps: int, eval_every: int) -> list[int]:
    """Before the first update, after every `eval_every`, and after the last."""
    return sorted({*range(0, steps + 1, eval_every), steps})


def tail_start(steps: int) -> int:
    """The first step of the last quarter, both ends included."""
    return math.ceil(0.75 * steps)


def tail_size(steps: int, eval_every: int) -> int:
    """How many evaluations the tail holds."""
    return sum(step >= tail_start(steps) for step in evaluation_steps(steps, eval_every))


def tail_mean(evaluations: Sequence[tuple[int, float]], steps: int) -> float:
    """The mean loss of the (step, loss) pairs in the last quarter of `steps`. At least one must lie there."""
    losses = [loss for step, loss in evaluations if step >= tail_start(steps)]
    return math.fsum(losses) / len(losses)

"""When a job evaluates, and the one number it reports: the tail mean. Imports without torch."""

import math
from collections.abc import Sequence

FEWEST = 3
"""Evaluations of a tail; fewer say too little of their own noise."""


def is_evaluated(step: int, steps: int, eval_every: int) -> bool:
    """Before the first update, after every `eval_every`, and after the last."""
    return step % eval_every == 0 or step == steps


def evaluation_count(steps: int, eval_every: int) -> int:
    """Evaluations of a whole job."""
    return steps // eval_every + 1 + (steps % eval_every != 0)


def tail_start(steps: int) -> int:
    """The first step of the last quarter, both ends included."""
    return math.ceil(3 * steps / 4)


def tail_size(steps: int, eval_every: int) -> int:
    """Evaluations of the tail."""
    before = (tail_start(steps) - 1) // eval_every + 1
    return evaluation_count(steps, eval_every) - before


def tail_mean(evaluations: Sequence[tuple[int, float]], steps: int) -> float:
    """The mean loss of the (step, loss) pairs in the last quarter of `steps`. At least one must lie there."""
    losses = [loss for step, loss in evaluations if step >= tail_start(steps)]
    return math.fsum(losses) / len(losses)

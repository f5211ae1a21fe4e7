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


def sized_tail_start(size: int, steps: int, eval_every: int) -> int:
    """The step of the last evaluation but `size` - 1; below 0 where there are fewer evaluations."""
    last = steps // eval_every * eval_every
    return last - (size - 1 - (last != steps)) * eval_every if size > 1 else steps


def tail_mean(evaluations: Sequence[tuple[int, float]], steps: int, size: int | None = None) -> float:
    """The mean loss of the (step, loss) pairs in the last quarter of `steps`, or of the last `size` pairs.

    At least one must be there.
    """
    if size is not None:
        losses = [loss for _, loss in sorted(evaluations)[-size:]]
    else:
        losses = [loss for step, loss in evaluations if step >= tail_start(steps)]
    return math.fsum(losses) / len(losses)

"""Finer values of an axis around the best of each method: the same new ones for all methods, controls too.

A method that may choose from more rates has more chances to look good, and a delta needs its control at the
same rate. So what one method asks for every method is given, and no table is decided by who searched longer.
"""

import math
from collections.abc import Mapping, Sequence

ROUNDS = 2
"""Each looks between the best value so far and its two neighbours, at half their ratio."""


def refined_values(methods: Sequence[Mapping[float, float]], listed: Sequence[float]) -> tuple[float, ...]:
    """The values beside the `listed` ones that are to be trained now or were before, ascending.

    `methods` holds for each method the mean loss at every value that it has a result for, infinite where one
    diverged or failed. A round begins when all methods have all results of the one before; until then this is
    what that one asked for. Depends on nothing else, so asking again after a crash gives the same.
    """
    values = sorted(listed)
    for _ in range(ROUNDS):
        if any(value not in losses for losses in methods for value in values):
            break
        values = sorted({*values, *(new for losses in methods for new in _around_best(losses, values))})
    return tuple(value for value in values if value not in set(listed))


def most_refined(listed: int) -> int:
    """New values at most, beside so many listed ones."""
    return (listed - 1) * (int(2**ROUNDS) - 1)


def _around_best(losses: Mapping[float, float], values: Sequence[float]) -> list[float]:
    """Midpoints, by ratio, between the best value and its neighbours; none where every value diverged."""
    best = min(values, key=lambda value: losses[value])
    if math.isinf(losses[best]):
        return []
    place = values.index(best)
    pairs = [values[i : i + 2] for i in (place - 1, place) if 0 <= i < len(values) - 1]
    return [float(f"{math.sqrt(low * high):.4g}") for low, high in pairs]

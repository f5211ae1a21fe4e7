"""Where a function is 0: scipy's own needs a module that takes a quarter of a second to load."""

from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """A root between `low` and `high`, where the function's signs differ, to a few units of the last digit.

    Chandrupatla (1997): an inverse parabola through the last three points where it bends little enough
    between them to be one, and halves elsewhere. ValueError where the signs are alike.
    """
    a, b = low, high
    at_a, at_b = function(a), function(b)
    if at_a * at_b > 0:
        raise ValueError(
            f"a root needs signs that differ, but {at_a:g} at {low:g} and {at_b:g} at {high:g} do not"
        )
    c, at_c = a, at_a
    share = 0.5
    for _ in range(200):
        x = a + share * (b - a)
        at_x = function(x)
        if (at_x > 0) == (at_a > 0):
            c, at_c = a, at_a
        else:
            c, b, at_c, at_b = b, a, at_b, at_a
        a, at_a = x, at_x
        best = a if abs(at_a) < abs(at_b) else b
        tolerance = 4e-16 * abs(best) + 1e-300
        if at_a == 0 or at_b == 0 or abs(b - a) <= 2 * tolerance:
            return best
        least = tolerance / abs(b - a)
        place, level = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        share = 0.5
        if level**2 < place and (1 - level) ** 2 < 1 - place:
            share = at_a / (at_b - at_a) * at_c / (at_b - at_c)
            share += (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        share = min(max(share, least), 1 - least)
    return best

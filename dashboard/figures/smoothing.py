"""The exponential moving average of a curve."""

from collections.abc import Sequence


def ema(values: Sequence[float | None], weight: float) -> list[float | None]:
    """Each value averaged with those before it, which weigh `weight` to the power of their distance.

    The sum of weights is divided out, so that the first values are not pulled to 0, as Adam does.
    A gap stays a gap, and the average goes on behind it. 0 leaves the values as they are.
    """
    total = norm = 0.0
    smooth: list[float | None] = []
    for value in values:
        if value is None:
            smooth.append(None)
            continue
        total, norm = weight * total + (1 - weight) * value, weight * norm + (1 - weight)
        smooth.append(total / norm)
    return smooth

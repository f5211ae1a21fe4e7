"""Where a fitted parabola has its minimum, with Fieller's interval: a mark on the line it was fitted to."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from headcount.api.results.curves import CurveLine
from headcount.api.results.shapes import LineShape
from headcount.dashboard import text


class Minimum(NamedTuple):
    """The fitted minimum of one line; positions are log₂ of the axis, as the line's own."""

    position: float
    low: float
    high: float
    """The interval's ends, cut where the axis ends."""
    height: float
    """Of the parabola there, at the level of the line's points."""
    words: str


def minimum_of(
    line: CurveLine,
    positions: Sequence[float],
    shapes: Sequence[LineShape],
    points: Sequence[tuple[float, float]],
) -> Minimum | None:
    """The minimum of a line drawn through `points`, (position, mean); None where no interval of it is known.

    `positions` are those of the whole axis. The fit leaves out the level, which differs by seed and measure:
    the parabola is laid through the mean of the points.
    """
    shape = next((s for s in shapes if s.settings == line.settings), None)
    fit = shape.parabola if shape else None
    if fit is None or fit.minimum is None or fit.low is None or fit.high is None or not points:
        return None
    fitted = [
        at for at, p in zip(positions, line.points, strict=True) if p and p.losses and not p.seeds_diverged
    ]
    first, last = min(fitted), max(fitted)
    where = math.log2(fit.minimum)
    if not first <= where <= last:
        return None

    def parabola(position: float) -> float:
        x = position - first
        return fit.linear * x + fit.quadratic * x * x

    level = sum(mean - parabola(position) for position, mean in points) / len(points)
    percent = f"{fit.confidence:.0%}".replace("%", f"{text.NO_BREAK}%")
    return Minimum(
        where,
        max(math.log2(fit.low), first),
        min(math.log2(fit.high), last),
        level + parabola(where),
        f"{fit.minimum:.3g} [{fit.low:.3g},{text.NO_BREAK}{fit.high:.3g}] ({percent}, Fieller)",
    )

"""The curve through a sweep's lowest cell, small enough for a line of the list: plain SVG."""

from typing import NamedTuple

from headcount.api.results import SweepBrief
from headcount.dashboard import text

WIDTH, HEIGHT, ROOM = 96.0, 30.0, 5.0
"""Of the drawing, and the room around its points."""


class Spark(NamedTuple):
    """Points in the drawing's own units; one is left out where a cell has no result."""

    points: tuple[tuple[float, float], ...]
    best: tuple[float, float]
    zero: float | None
    """Where a delta is 0, if that is within the drawing."""
    summary: str
    """In words, for those who do not see it."""


def spark(brief: SweepBrief) -> Spark | None:
    """The drawing; None where fewer than two cells of the line have a result."""
    known = [(i, mean) for i, (_, mean) in enumerate(brief.line) if mean is not None]
    if len(known) < 2 or brief.axis is None:
        return None
    means = [mean for _, mean in known]
    low, high = min(means), max(means)
    if brief.measure == "delta":
        high = max(high, 0.0)
    last = len(brief.line) - 1

    def at(index: int, mean: float) -> tuple[float, float]:
        across = ROOM + (WIDTH - 2 * ROOM) * index / last
        down = ROOM + (HEIGHT - 2 * ROOM) * ((high - mean) / (high - low) if high > low else 0.5)
        return round(across, 1), round(down, 1)

    lowest = min(known, key=lambda point: point[1])
    write = text.signed if brief.measure == "delta" else text.number
    told = ", ".join(f"{write(mean)} at {text.setting(brief.line[i][0])}" for i, mean in known)
    return Spark(
        points=tuple(at(i, mean) for i, mean in known),
        best=at(*lowest),
        zero=at(0, 0.0)[1] if brief.measure == "delta" else None,
        summary=f"{brief.measure.capitalize()} by {text.long(brief.axis)}: {told}",
    )

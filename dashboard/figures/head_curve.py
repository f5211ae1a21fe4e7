"""The data of the U: loss or delta against the routing heads, one line for each number of KV heads."""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from headcount.api.results.curves import CurveLine, HeadCurve
from headcount.api.results.reference import Reference
from headcount.api.results.shapes import LineShape
from headcount.api.results.tables import TableRow
from headcount.dashboard import text
from headcount.dashboard.figures.bars import Bars, Measure
from headcount.dashboard.figures.fitted import Minimum, minimum_of
from headcount.dashboard.figures.published import PublishedLine, published_lines
from headcount.dashboard.figures.table import FigureTable


class HeadPoint(NamedTuple):
    """One cell on its line."""

    position: float
    """Along the axis; see `positions`."""
    value: Any
    """Of the axis."""
    mean: float
    low: float | None
    high: float | None
    """Ends of the bar; None with one seed."""
    n: int
    seeds: tuple[int, ...]
    seed_values: tuple[float, ...]
    """One a seed: its loss, or its delta."""
    best: bool
    at_edge: bool = False
    """The best learning rate of its setting, an end of the grid: the best may lie beyond."""


class HeadLine(NamedTuple):
    """The cells of one setting of all other axes."""

    name: str
    points: list[HeadPoint]
    control: float | None
    """Mean loss of the control, where one control serves the whole line and the measure is the loss."""
    minimum: Minimum | None
    """Of a fitted parabola, where an interval of it is known."""


class HeadCurveData(NamedTuple):
    """Everything that the figure shows."""

    axis: str
    measure: Measure
    ticks: list[float]
    labels: list[str]
    lines: list[HeadLine]
    absent: list[text.Absent]
    """Cells that are not drawn, each with the reason."""
    bars: str
    """What they show."""
    published: list[PublishedLine]


def positions(values: Sequence[Any]) -> list[float]:
    """Where values stand along the axis: numbers above 0 by their logarithm to base 2, others evenly."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
        return [math.log2(v) for v in values]
    return [float(i) for i in range(len(values))]


def ascending(values: Sequence[Any]) -> list[int]:
    """The places of values in the order in which they stand along the axis: a file may list them in any."""
    where = positions(values)
    return sorted(range(len(values)), key=where.__getitem__)


def head_curve_data(
    curve: HeadCurve,
    lines: Sequence[CurveLine],
    bars: Bars,
    best: int | None,
    without: Sequence[str] = (),
    shapes: Sequence[LineShape] = (),
    reference: Reference | None = None,
    edges: Collection[int] = (),
) -> HeadCurveData:
    """The chosen lines of a curve. `best` is the cell to mark; names leave out the axes `without`.

    `shapes` are the fits to lines over the same axis, and `reference` what is published of the cells.
    `edges` are the cells to mark as `at_edge`.
    """
    measure = bars.measure
    where = positions(curve.values)
    drawn, absent = [], []
    for line in lines:
        name = text.settings(line.settings, without) or "all cells"
        points = []
        for at in ascending(curve.values):
            position, value, row = where[at], curve.values[at], line.points[at]
            point = row and _point(position, value, row, bars, row.cell == best, row.cell in edges)
            if point:
                points.append(point)
            else:
                cell = text.settings({curve.axis: value, **line.settings}, without)
                absent.append(text.Absent(cell, _reason(row, measure)))
        control = _control(line) if measure == "loss" else None
        minimum = minimum_of(line, where, shapes, [(point.position, point.mean) for point in points])
        drawn.append(HeadLine(name, points, control, minimum))
    labels = [text.setting(v) for v in curve.values]
    published = _published(reference, lines, where, bars) if reference else []
    return HeadCurveData(curve.axis, measure, where, labels, drawn, absent, bars.words, published)


def _published(
    reference: Reference, lines: Sequence[CurveLine], where: Sequence[float], bars: Bars
) -> list[PublishedLine]:
    told = {row.cell: bars.of(row) for line in lines for row in line.points if row}
    ours = {cell: bar.mean for cell, bar in told.items() if bar}
    return published_lines(reference, lines, where, bars.measure, ours)


def _point(
    position: float, value: Any, row: TableRow, bars: Bars, best: bool, at_edge: bool
) -> HeadPoint | None:
    bar = bars.of(row)
    if bar is None:
        return None
    if bars.measure == "loss":
        return HeadPoint(position, value, *bar, row.n, row.seeds, row.losses, best, at_edge)
    assert row.delta is not None
    delta = row.delta
    return HeadPoint(position, value, *bar, delta.n, delta.seeds, delta.deltas, best, at_edge)


def _reason(row: TableRow | None, measure: Measure) -> str:
    if row is None:
        return "not in this sweep"
    if row.note:
        return row.note
    if measure == "delta" and row.delta is not None and row.mean is not None:
        return row.delta.reason or "no delta"
    return row.state


def _control(line: CurveLine) -> float | None:
    controls = {c.cell: c.mean for c in line.controls if c}
    return next(iter(controls.values())) if len(controls) == 1 else None


def vertical_range(data: HeadCurveData) -> tuple[float, float] | None:
    """The range of the vertical axis where some bar would flatten everything else: 2 seeds make long ones.

    Every point, and around them as much again: longer bars run out of the figure. None where all bars fit.
    """
    points = [p for line in data.lines for p in line.points]
    if not points:
        return None
    values = [v for p in points for v in (p.mean, *p.seed_values)]
    values += [line.control for line in data.lines if line.control is not None]
    values += [value for line in data.published for value in line.values]
    values += [0.0] if data.measure == "delta" else []
    low, high = min(values), max(values)
    room = (high - low) or 1.0
    bars = [end for p in points for end in (p.low, p.high) if end is not None]
    if not bars or (min(bars) >= low - room and max(bars) <= high + room):
        return None
    return max(low - room, min(low, *bars)), min(high + room, max(high, *bars))


def head_curve_table(data: HeadCurveData) -> FigureTable:
    """The same numbers to read."""
    write = text.signed if data.measure == "delta" else text.number
    rows = [
        [line.name, text.setting(p.value), write(p.mean), write(p.low), write(p.high), str(p.n)]
        for line in data.lines
        for p in line.points
    ]
    labels = dict(zip(data.ticks, data.labels, strict=True))
    rows += [
        [f"paper: {data.lines[line.line].name}", labels[at], write(value), *[text.NOTHING] * 3]
        for line in data.published
        for at, value in zip(line.positions, line.values, strict=True)
    ]
    return FigureTable(
        ["Line", text.long(data.axis), data.measure.capitalize(), "Bar from", "Bar to", "n"],
        rows,
        f"{data.measure.capitalize()} by {text.long(data.axis)}; bars: {data.bars}.",
        numbers_from=1,
    )


def head_curve_summary(data: HeadCurveData) -> str:
    """The figure in words, for those who do not see it."""
    parts = []
    for line in data.lines:
        if not line.points:
            parts.append(f"{line.name}: no result yet")
            continue
        low = min(line.points, key=lambda p: p.mean)
        write = text.signed if data.measure == "delta" else text.number
        first, last = line.points[0], line.points[-1]
        told = (
            f"{line.name}: {write(first.mean)} at {text.setting(first.value)}, lowest {write(low.mean)} at "
            f"{text.setting(low.value)}, {write(last.mean)} at {text.setting(last.value)}"
        )
        parts.append(told + (f", fitted minimum at {line.minimum.words}" if line.minimum else ""))
    what = "Delta to control" if data.measure == "delta" else "Validation loss"
    return f"{what} against {text.long(data.axis)}. " + "; ".join(parts) + "."

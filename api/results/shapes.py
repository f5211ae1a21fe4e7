"""Is each line of the head curve a U? By ends and middle fixed at submission, one family over the lines."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from headcount.api.results.adaptive import first_stage
from headcount.api.results.curves import CurveLine, head_curve
from headcount.api.results.families import Family
from headcount.api.results.tables import AblationTable
from headcount.sweeps.statistics import (
    Friedman,
    MeanEstimate,
    Parabola,
    TwoLines,
    UShape,
    curvature,
    friedman,
    holm,
    loss_table,
    parabola,
    two_lines,
    u_shape,
)


@dataclass(frozen=True)
class LineShape:
    """Whether the losses of one line of the head curve form a U."""

    settings: dict[str, Any]
    shape: UShape | None
    """By contrasts of the ends with the middle: what a claim rests on."""
    note: str
    """Why there is no answer; empty where there is one."""
    adjusted_p: float | None = None
    """Of the shape's p, by Holm over all lines."""
    rejected: bool = False
    """Whether the family says that this line is a U."""
    parabola: Parabola | None = None
    """Over log₂ of the axis, with Fieller's interval of the minimum; None where it cannot be fitted."""
    lines: TwoLines | None = None
    """Broken in the middle of `middle`; None with fewer than 3 values of the axis on a side."""
    curvature: MeanEstimate | None = None
    """Over log₂ of the axis, loss per squared doubling: above 0 is convex, which alone is no U."""
    friedman: Friedman | None = None
    """Whether the values of the axis differ at all, by ranks: a rough answer, of any shape."""


def line_shapes(table: AblationTable, alpha: float) -> tuple[LineShape, ...]:
    """The shape of every line; none where the sweep's file fixes no analysis."""
    return tuple(shape for _, shape in shaped_lines(table, alpha))


def shaped_lines(table: AblationTable, alpha: float) -> list[tuple[CurveLine, LineShape]]:
    """As `line_shapes`, each with its line."""
    axis = table.analysis.get("axis")
    if axis not in table.axes:
        return []
    curve = head_curve(table, axis)
    shapes = [_shape(table, line, curve.values, alpha) for line in curve.lines]
    p_values = {str(i): s.shape.p if s.shape else None for i, s in enumerate(shapes)}
    members = holm(f"every line of {table.sweep}", p_values, alpha=alpha).members
    return [
        (line, replace(shape, adjusted_p=members[str(i)].adjusted_p, rejected=members[str(i)].rejected))
        for i, (line, shape) in enumerate(zip(curve.lines, shapes, strict=True))
    ]


def shape_family(table: AblationTable, shapes: Sequence[LineShape], alpha: float) -> Family:
    """The lines, whose p-values are corrected for each other."""
    return Family(f"every line of {table.sweep}", "holm", len(shapes), alpha)


def _shape(table: AblationTable, line: CurveLine, values: tuple[Any, ...], alpha: float) -> LineShape:
    points = [p if p and not p.seeds_diverged else None for p in line.points]
    cells = [dict(zip(p.seeds, p.losses, strict=True)) if p else {} for p in points]
    seeds, losses = loss_table(cells)
    start = first_stage(table.first_seeds, seeds)
    analysis = table.analysis
    if not all(isinstance(v, int | float) for v in values):
        return LineShape(line.settings, None, "the values of the axis are not numbers")
    levels = [float(v) for v in values]
    middle = sorted(float(v) for v in analysis["middle"])
    needed = {*middle, *map(float, analysis["ends"])}
    absent = [v for v, cell in zip(levels, cells, strict=True) if v in needed and not cell]
    if absent:
        listed = ", ".join(f"{v:g}" for v in absent)
        return LineShape(line.settings, None, f"no losses, or a diverged seed, at {listed}")
    shape = u_shape(
        levels,
        losses,
        ends=[float(v) for v in analysis["ends"]],
        middle=middle,
        flat_margin=analysis.get("flat_margin"),
        alpha=alpha,
        start=start,
    )
    known = [i for i, cell in enumerate(cells) if cell]
    fitted, measured = losses[known], [levels[i] for i in known]
    positive = min(measured) > 0
    return LineShape(
        settings=line.settings,
        shape=shape,
        note="" if shape.p is not None else "needs 2 seeds that have the ends and the middle",
        parabola=parabola(measured, fitted, confidence=table.confidence) if positive else None,
        lines=two_lines(measured, fitted, middle[(len(middle) - 1) // 2]) if positive else None,
        curvature=curvature(measured, fitted, confidence=table.confidence, start=start)[0]
        if positive and len(measured) > 2
        else None,
        friedman=friedman(fitted),
    )

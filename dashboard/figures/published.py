"""Published curves over ours: their shape beside our shape, never their level beside our level."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headcount.api.results.curves import CurveLine
from headcount.api.results.reference import PublishedMatch, PublishedRow, Reference
from headcount.dashboard.figures.bars import Measure


class PublishedLine(NamedTuple):
    """One published curve at the KV heads of one of our lines."""

    recipe: str
    """Scale, corpus, learning rate and steps: the same for all lines of a figure."""
    line: int
    """The place of our line among those that are drawn."""
    positions: list[float]
    values: list[float]
    """A delta as published; a loss moved by one constant to the mean of our line at the same H."""
    moved: float
    """That constant; 0 for deltas."""


def published_lines(
    reference: Reference,
    lines: Sequence[CurveLine],
    positions: Sequence[float],
    measure: Measure,
    ours: Mapping[int, float],
) -> list[PublishedLine]:
    """The published curves of our lines with two points or more, all of one recipe.

    It is of our own scale where one is, and then the one with the most points. `ours` is what we draw of each
    cell.
    """
    matches = [m for m in reference.matches if _value(m.published, measure) is not None and m.cell in ours]
    if any(m.same_scale for m in matches):
        matches = [m for m in matches if m.same_scale]
    by_recipe: dict[str, list[PublishedLine]] = {}
    for index, line in enumerate(lines):
        where = {p.cell: at for p, at in zip(line.points, positions, strict=True) if p}
        groups: dict[str, dict[int, PublishedMatch]] = {}
        for match in matches:
            if match.cell in where:
                groups.setdefault(_recipe(match.published), {})[match.cell] = match
        for recipe, members in groups.items():
            if len(members) > 1:
                made = _line(recipe, index, members, where, measure, ours)
                by_recipe.setdefault(recipe, []).append(made)
    return max(by_recipe.values(), key=lambda lines: sum(len(line.values) for line in lines), default=[])


def _line(
    recipe: str,
    index: int,
    members: Mapping[int, PublishedMatch],
    where: Mapping[int, float],
    measure: Measure,
    ours: Mapping[int, float],
) -> PublishedLine:
    cells = sorted(members, key=lambda cell: where[cell])
    values = [_value(members[cell].published, measure) or 0.0 for cell in cells]
    moved = 0.0
    if measure == "loss":
        moved = sum(ours[cell] for cell in cells) / len(cells) - sum(values) / len(values)
    return PublishedLine(recipe, index, [where[cell] for cell in cells], [v + moved for v in values], moved)


def _value(row: PublishedRow, measure: Measure) -> float | None:
    return row.loss if measure == "loss" else row.delta


def _recipe(row: PublishedRow) -> str:
    recipe = [
        row.scale,
        row.corpus,
        f"LR {row.peak_lr}" * bool(row.peak_lr),
        f"{row.steps} steps" * bool(row.steps),
    ]
    return ", ".join(part for part in recipe if part)

"""A figure with everything that stands around it on a page."""

from dataclasses import dataclass
from typing import Any

from headcount.api.results import AblationTable
from headcount.dashboard import text
from headcount.dashboard.choice import Choice
from headcount.dashboard.figures.table import FigureTable

MOST_NAMED = 6
"""Cells that a caption names as not drawn, before it counts the rest."""


@dataclass(frozen=True)
class Figure:
    """One figure; `drawn` is for plotly.js, in the light page's colours."""

    id: str
    title: str
    drawn: dict[str, Any]
    summary: str
    """In words, for those who do not see it."""
    caption: str
    table: FigureTable
    kind: str = ""
    csv: str = ""
    """Where the API has its numbers in full precision; empty: where it has the page's."""


def caption(table: AblationTable, choice: Choice, marks: str, absent: list[str]) -> str:
    """n, seeds, filters and data version: what one must know to read or repeat the figure."""
    shown = [f"{text.short(f.axis)}{text.NO_BREAK}{f.chosen}" for f in choice.filters]
    shown += [text.settings({axis: table.axes[axis][0]}) for axis in choice.constant]
    parts = [f"n up to {len(table.seeds)} ({text.seeds(table.seeds)})"]
    parts += [f"Shown at {', '.join(shown)}"] if shown else []
    parts += [marks, f"Data version {table.version}"]
    if absent:
        more = f"; and {len(absent) - MOST_NAMED} more" if len(absent) > MOST_NAMED else ""
        parts.append(f"Not drawn: {'; '.join(absent[:MOST_NAMED])}{more}")
    return ". ".join(parts) + "."

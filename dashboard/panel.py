"""A figure with everything that stands around it on a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headcount.api.results import AblationTable, QueryError
from headcount.dashboard import text
from headcount.dashboard.choice import Choice
from headcount.dashboard.figures.table import FigureTable
from headcount.trainer.errors import nearest


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


def named(figures: Sequence[Figure], id: str) -> Figure:
    """The one of a view's figures with this id. Raises `QueryError` where there is none."""
    by_id = {figure.id: figure for figure in figures}
    if id not in by_id:
        raise QueryError(f"this view has no figure {id!r}; {nearest(id, by_id)}")
    return by_id[id]


def caption(table: AblationTable, choice: Choice, marks: str, absent: Sequence[text.Absent]) -> str:
    """n, seeds, filters and data version: what one must know to read or repeat the figure."""
    shown = [f"{text.short(f.axis)}{text.NO_BREAK}{f.chosen}" for f in choice.filters]
    shown += [text.settings({axis: table.axes[axis][0]}) for axis in choice.constant]
    parts = [f"n up to {len(table.seeds)} ({text.seeds(table.seeds)})"]
    parts += [f"Shown at {', '.join(shown)}"] if shown else []
    parts += [marks, f"Data version {table.version}"]
    if absent:
        parts.append(text.not_drawn(absent))
    return ". ".join(parts) + "."

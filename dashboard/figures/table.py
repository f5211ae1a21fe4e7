"""The numbers of a figure as a table: its twin for keyboards, screen readers and copying."""

from typing import NamedTuple


class FigureTable(NamedTuple):
    """Columns and rows as text; the columns from `numbers_from` on are numbers, set right."""

    columns: list[str]
    rows: list[list[str]]
    caption: str
    numbers_from: int

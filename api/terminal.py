"""The ablation table in a terminal."""

from rich import box
from rich.console import Console
from rich.table import Table

from headcount.api.columns import DIGITS, ReadableTable, readable
from headcount.api.results import AblationTable


def print_table(table: AblationTable, digits: int = DIGITS, console: Console | None = None) -> None:
    """Print the table with its caption; controls are dim, and the lowest mean is bold."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = 200  # a file or a pipe has no edge to wrap at
    content = readable(table, digits)
    printed = _rich_table(content)
    for row, texts in zip(table.rows, content.rows, strict=True):
        style = "dim" if row.is_control else "bold" if row.rank == 1 else None
        printed.add_row(*texts, style=style)
    console.print(printed)


def _rich_table(content: ReadableTable) -> Table:
    table = Table(
        title=content.title,
        caption=content.caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
    )
    for heading, numeric in zip(content.headings, content.numeric, strict=True):
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=heading != "remark")
    return table

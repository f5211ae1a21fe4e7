"""The ablation table in a terminal."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from headcount.api.columns import DIGITS, ReadableTable, readable, readable_reference
from headcount.api.results import AblationTable, best_cell


def print_table(table: AblationTable, digits: int = DIGITS, console: Console | None = None) -> None:
    """Print the table, a line for each remark, and the caption; controls are dim, the best cell is bold."""
    console = console or Console(highlight=False)
    content = readable(table, digits)
    numbers = [i for i, heading in enumerate(content.headings) if heading != "remark"]
    best = best_cell(table.treatments, table.fresh_seeds)
    grid = _grid(content, numbers)
    for row, texts in zip(table.rows, content.rows, strict=True):
        style = "dim" if row.is_control else "bold" if row.cell == best else None
        grid.add_row(*(texts[i] for i in numbers), style=style)
    needed = Measurement.get(console, console.options.update(width=10_000), grid).maximum
    console.width = max(console.width, needed)  # better a wrapped line than a number cut short
    console.print(grid)
    if len(numbers) < len(content.headings):
        for line in _remarks(table, content):
            console.print(line)
    console.print(content.caption, style="dim")
    if table.reference:
        console.print()
        print_content(readable_reference(table), console)


def print_content(content: ReadableTable, console: Console | None = None) -> None:
    """Print a table for people with its caption, no number cut short."""
    console = console or Console(highlight=False)
    grid = _grid(content, list(range(len(content.headings))))
    for texts in content.rows:
        grid.add_row(*texts)
    needed = Measurement.get(console, console.options.update(width=10_000), grid).maximum
    console.width = max(console.width, needed)
    console.print(grid)
    console.print(content.caption, style="dim")


def _remarks(table: AblationTable, content: ReadableTable) -> Iterator[str]:
    """A line for each remark, with the cells that it is about, or their number where they are many."""
    cells: dict[str, list[str]] = {}
    for row, texts in zip(table.rows, content.rows, strict=True):
        axes = zip(table.axes, content.headings, texts, strict=False)
        settings = [f"{name} {value}" for axis, name, value in axes if axis in row.settings]
        cells.setdefault(texts[-1], []).append(", ".join(["control"] * row.is_control + settings))
    for remark, names in cells.items():
        if remark:
            yield from (
                [f"{len(names)} cells: {remark}"] if len(names) > 3 else [f"{n}: {remark}" for n in names]
            )


def _grid(content: ReadableTable, columns: list[int]) -> Table:
    grid = Table(
        title=content.title,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for i in columns:
        grid.add_column(
            content.headings[i].replace(" ", "\n") if content.numeric[i] else content.headings[i],
            justify="right" if content.numeric[i] else "left",
            vertical="bottom",
            no_wrap=True,
        )
    return grid

"""The ablation table in a terminal."""

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from headcount.api.columns import DIGITS, ReadableTable, readable
from headcount.api.results import AblationTable, best_cell


def print_table(table: AblationTable, digits: int = DIGITS, console: Console | None = None) -> None:
    """Print the table, a line for each remark, and the caption; controls are dim, the best cell is bold."""
    console = console or Console(highlight=False)
    content = readable(table, digits)
    numbers = [i for i, heading in enumerate(content.headings) if heading != "remark"]
    best = best_cell(table.treatments)
    grid = _grid(content, numbers)
    for row, texts in zip(table.rows, content.rows, strict=True):
        style = "dim" if row.is_control else "bold" if row.cell == best else None
        grid.add_row(*(texts[i] for i in numbers), style=style)
    needed = Measurement.get(console, console.options.update(width=10_000), grid).maximum
    console.width = max(console.width, needed)  # better a wrapped line than a number cut short
    console.print(grid)
    for texts in content.rows:
        if len(texts) > len(numbers) and texts[-1]:
            axes = zip(content.headings, texts[: len(table.axes)], strict=False)
            console.print(f"{', '.join(f'{name} {value}' for name, value in axes)}: {texts[-1]}")
    console.print(content.caption, style="dim")


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

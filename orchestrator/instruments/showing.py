"""An instrument's figures in the terminal."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from headcount.sweeps.statistics.items import ItemDifference
from headcount.trainer.probe.figures import Figures

if TYPE_CHECKING:
    from headcount.trainer.downstream.running import Downstream


def show_probe(figures: Figures, console: Console | None = None) -> None:
    console = console or Console()
    table = Table(
        box=None,
        caption="Disagreement: mean KL of a slice's distribution over depth to the whole width's, nats. "
        "Null: the same for random queries of the trained query's norm. Oldest: the mean weight of source 0.",
        caption_justify="left",
    )
    columns = ("site", "sources", "disagreement", "null", "excess", "entropy", "top source", "oldest")
    for column in columns:
        table.add_column(column, justify="right")
    for site in figures.sites:
        table.add_row(
            str(site.site),
            str(site.sources),
            f"{site.disagreement:.4f}",
            f"{site.null:.4f}",
            f"{site.disagreement - site.null:+.4f}",
            f"{site.entropy:.4f}",
            str(site.top_source),
            f"{site.oldest_weight:.4f}",
        )
    console.print(table)
    console.print(f"over {figures.tokens:,} tokens, {figures.settings.slices} slices:")
    for name, value in figures.measurements().items():
        console.print(f"  {name} {'not known' if value is None else f'{value:.4f}'}", highlight=False)


def show_downstream(outcome: "Downstream", console: Console | None = None) -> None:
    console = console or Console()
    table = Table(box=None)
    for column in ("task", "metric"):
        table.add_column(column)
    for column in ("value", "stderr"):
        table.add_column(column, justify="right")
    for figure in outcome.figures:
        stderr = "not known" if figure.stderr is None else f"{figure.stderr:.4f}"
        table.add_row(figure.task, figure.metric, f"{figure.value:.4f}", stderr)
    console.print(table)


def show_differences(found: Mapping[tuple[str, str], ItemDifference], console: Console | None = None) -> None:
    console = console or Console()
    table = Table(
        box=None,
        caption="First model minus second, of the items' scores; the 95 % interval is a bootstrap of items, "
        "p is McNemar's exact. Both are of these two models, not of their methods.",
        caption_justify="left",
    )
    for column in ("task", "metric"):
        table.add_column(column)
    for column in ("difference", "95 % interval", "items", "p"):
        table.add_column(column, justify="right")
    for (task, metric), difference in found.items():
        table.add_row(
            task,
            metric,
            f"{difference.mean:+.4f}",
            f"{difference.low:+.4f} … {difference.high:+.4f}",
            str(difference.n),
            "" if difference.p is None else f"{difference.p:.4f}",
        )
    console.print(table)

"""Tokens a second of every cell, beside its control's."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results.tables import AblationTable
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable

MOST_BARS = 60


class SpeedBar(NamedTuple):
    """One cell that has trained."""

    name: str
    is_control: bool
    tokens_per_second: float
    relative: float | None
    """To its control; None without one that has trained."""
    peak_memory_bytes: float | None
    flops_per_token: float | None
    mfu: float | None = None
    """Share of the card's dense bf16 peak, mean over jobs; None where that is not known."""


class SpeedData(NamedTuple):
    """Everything that the figure shows, the fastest first."""

    bars: list[SpeedBar]
    cells: int
    """With a speed; more than are drawn where there are very many."""


def speed_data(
    table: AblationTable, without: tuple[str, ...] = (), mfu: Mapping[int, Sequence[float]] = {}
) -> SpeedData:
    """The cells that have trained; names leave out the axes `without`. `mfu` is of each job, by cell."""
    bars = []
    for row in table.rows:
        if row.tokens_per_second is None:
            continue
        control = table.row(row.control) if row.control is not None else None
        base = control.tokens_per_second if control else None
        bars.append(
            SpeedBar(
                text.cell_name(row.settings, row.is_control, without),
                row.is_control,
                row.tokens_per_second,
                row.tokens_per_second / base if base else None,
                row.peak_memory_bytes,
                row.flops_per_token,
                fmean(mfu[row.cell]) if row.cell in mfu else None,
            )
        )
    bars.sort(key=lambda bar: -bar.tokens_per_second)
    return SpeedData(bars[:MOST_BARS], len(bars))


def speed_figure(data: SpeedData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    bars = data.bars[::-1]
    traces = [
        go.Bar(
            x=[bar.tokens_per_second for bar in bars],
            y=[theme.plain(bar.name) for bar in bars],
            orientation="h",
            marker={"color": [theme.MUTED if bar.is_control else theme.SERIES[0] for bar in bars]},
            hovertext=[_hover(bar) for bar in bars],
            hoverinfo="text",
        )
    ]
    return theme.figure(
        traces if bars else [],
        xaxis=theme.axis("Tokens a second, mean over jobs", tickformat="~s", rangemode="tozero"),
        yaxis=theme.axis(showgrid=False),
        height=max(280, 110 + 22 * len(bars)),
        bargap=0.3,
        hovermode="closest",
        nothing="" if bars else "A bar stands here once a job of its cell has trained.",
    )


def _hover(bar: SpeedBar) -> str:
    relative = f"<br>{bar.relative:.3f} of its control" if bar.relative else ""
    share = f"<br>MFU {_percent(bar.mfu)}" if bar.mfu else ""
    memory = f"<br>peak memory {text.compact(bar.peak_memory_bytes)}B" if bar.peak_memory_bytes else ""
    return (
        f"{theme.plain(bar.name)}<br><b>{text.compact(bar.tokens_per_second)}</b> tokens/s"
        f"{relative}{share}{memory}"
    )


def _percent(share: float | None) -> str:
    return text.NOTHING if share is None else f"{share:.1%}".replace("%", " %")


def speed_table(data: SpeedData) -> FigureTable:
    """The same numbers to read, with memory and arithmetic."""
    rows = [
        [
            bar.name,
            f"{bar.tokens_per_second:,.0f}",
            text.NOTHING if bar.relative is None else f"{bar.relative:.3f}",
            text.compact(bar.peak_memory_bytes),
            text.compact(bar.flops_per_token),
            _percent(bar.mfu),
        ]
        for bar in data.bars
    ]
    columns = ["Cell", "Tokens/s", "Of its control", "Peak memory, bytes", "FLOPs a token", "MFU"]
    return FigureTable(columns, rows, "Speed, memory and arithmetic of every cell.", numbers_from=1)


def speed_summary(data: SpeedData) -> str:
    """The figure in words, for those who do not see it."""
    if not data.bars:
        return "Tokens a second by cell. No job has trained yet."
    first, last = data.bars[0], data.bars[-1]
    return (
        f"Tokens a second by cell. Fastest: {first.name} with {first.tokens_per_second:,.0f}; "
        f"slowest: {last.name} with {last.tokens_per_second:,.0f}."
    )

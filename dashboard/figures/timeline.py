"""The slots over time: what each worked on, and where it stood idle."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import plotly.graph_objects as go

from headcount.api.results.timeline import Span, Timeline
from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.table import FigureTable
from headcount.orchestrator.following.overview import short_node

MOST_SLOTS = 40
FEW = 40
"""Bars of a slot up to which a border of a whole pixel leaves something of them."""
PIXELS = 800
"""That the whole time is wide, about."""
SHORT_GAP = 1.0
"""Seconds between two attempts that are no idleness: the slot is told its next job."""

LOOKS = {
    "finished": theme.SERIES[0],
    "diverged": theme.DIVERGED,
    "ended without a result": theme.FAILED,
    "running": theme.SERIES[2],
    "another sweep": theme.MUTED,
}


class Bar(NamedTuple):
    """One attempt, in seconds since the first one's start."""

    slot: int
    start: float
    end: float
    look: str
    words: str


class SlotUse(NamedTuple):
    """What one slot did between its first and its last attempt for this sweep."""

    name: str
    attempts: int
    """Of this sweep."""
    busy: float
    """Seconds with a job of this sweep."""
    elsewhere: float
    """Seconds with another sweep's."""
    idle: float
    longest_gap: float


class TimelineData(NamedTuple):
    """Everything that the figure shows, the slot with the first attempt at the top."""

    begun: datetime | None
    bars: list[Bar]
    slots: list[SlotUse]
    all_slots: int
    """More than are drawn where there are very many."""


def timeline_data(timeline: Timeline, names: Mapping[int, str]) -> TimelineData:
    """The slots of a sweep; `names` are those of its cells."""
    own = timeline.own
    if not own:
        return TimelineData(None, [], [], 0)
    begun = own[0].started
    by_slot: dict[tuple[str, str], list[Span]] = {}
    for span in own:
        by_slot.setdefault((span.node, span.slot), [])
    for span in timeline.spans:
        if (span.node, span.slot) in by_slot:
            by_slot[span.node, span.slot].append(span)
    bars, slots = [], []
    for index, ((node, slot), spans) in enumerate(list(by_slot.items())[:MOST_SLOTS]):
        slot_bars = [_bar(index, span, begun, timeline.heard, names) for span in spans]
        bars += _visible(slot_bars, (timeline.heard or begun) - begun)
        slots.append(_use(f"{short_node(node)} · {slot}" if node else slot, slot_bars))
    return TimelineData(begun, bars, slots, len(by_slot))


def _bar(slot: int, span: Span, begun: datetime, heard: datetime | None, names: Mapping[int, str]) -> Bar:
    end = span.ended or heard or span.started
    if span.cell is None:
        look = "another sweep"
    elif span.ended is None:
        look = "running"
    else:
        look = span.cause if span.cause in ("finished", "diverged") else "ended without a result"
    start, stop = (span.started - begun).total_seconds(), (end - begun).total_seconds()
    what = "a job of another sweep" if span.cell is None else f"{names[span.cell]}, seed {span.seed}"
    cause = (span.cause or "running").replace("_", " ")
    return Bar(slot, start, stop, look, f"{what}: {cause}, {duration(stop - start)}")


def _visible(bars: list[Bar], whole: timedelta) -> list[Bar]:
    """Bars that would lie within one pixel of each other as one, so that thousands stay light."""
    pixel = whole.total_seconds() / PIXELS
    drawn: list[Bar] = []
    counts: list[int] = []
    for bar in bars:
        last = drawn[-1] if drawn else None
        if last and last.look == bar.look and bar.end - last.start <= pixel:
            counts[-1] += 1
            drawn[-1] = last._replace(end=max(last.end, bar.end), words=f"{counts[-1]} attempts: {bar.look}")
        else:
            drawn.append(bar)
            counts.append(1)
    return drawn


def _use(name: str, bars: list[Bar]) -> SlotUse:
    own = [bar for bar in bars if bar.look != "another sweep"]
    first, last = min(bar.start for bar in own), max(bar.end for bar in own)
    idle, longest, reached = 0.0, 0.0, first
    for bar in sorted(bars, key=lambda bar: bar.start):
        gap = min(bar.start, last) - reached
        if gap > SHORT_GAP:
            idle, longest = idle + gap, max(longest, gap)
        reached = max(reached, bar.end)
    busy = sum(bar.end - bar.start for bar in own)
    elsewhere = sum(
        max(0.0, min(bar.end, last) - max(bar.start, first)) for bar in bars if bar.look == "another sweep"
    )
    return SlotUse(name, len(own), busy, elsewhere, idle, longest)


def duration(seconds: float) -> str:
    """A span of time by its two largest units: 3 h 20 min."""
    whole = round(seconds)
    if whole < 120:
        return f"{seconds:.3g} s" if seconds < 10 else f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def timeline_figure(data: TimelineData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    last = max((bar.end for bar in data.bars), default=0.0)
    unit, size = ("hours", 3600) if last > 7200 else ("minutes", 60) if last > 120 else ("seconds", 1)
    border = 1 if len(data.bars) <= FEW * len(data.slots) else 0.3
    traces = []
    for look, color in LOOKS.items():
        bars = [bar for bar in data.bars if bar.look == look]
        if bars:
            traces.append(
                go.Bar(
                    x=[(bar.end - bar.start) / size for bar in bars],
                    base=[bar.start / size for bar in bars],
                    y=[theme.plain(data.slots[bar.slot].name) for bar in bars],
                    orientation="h",
                    marker={"color": color, "line": {"width": border, "color": theme.SURFACE}},
                    hovertext=[theme.plain(bar.words) for bar in bars],
                    hoverinfo="text",
                    name=look,
                )
            )
    return theme.figure(
        traces,
        xaxis=theme.axis(f"{unit.capitalize()} since the first attempt", rangemode="tozero"),
        yaxis=theme.axis(showgrid=False, autorange="reversed"),
        barmode="overlay",
        bargap=0.35,
        height=max(260, 120 + 30 * len(data.slots)),
        hovermode="closest",
        nothing="" if data.bars else "A bar stands here for every attempt once a job has begun.",
    )


def timeline_table(data: TimelineData) -> FigureTable:
    """The use of every slot to read."""
    rows = [
        [
            use.name,
            str(use.attempts),
            duration(use.busy),
            duration(use.elsewhere),
            duration(use.idle),
            duration(use.longest_gap),
            _share(use),
        ]
        for use in data.slots
    ]
    columns = ["Slot", "Attempts", "Busy", "Other sweeps", "Idle", "Longest gap", "Busy share"]
    return FigureTable(
        columns, rows, "Every slot between its first and last attempt for this sweep.", numbers_from=1
    )


def _share(use: SlotUse) -> str:
    whole = use.busy + use.elsewhere + use.idle
    return f"{use.busy / whole:.0%}".replace("%", " %") if whole else text.NOTHING


def timeline_summary(data: TimelineData) -> str:
    """The figure in words, for those who do not see it."""
    if not data.bars:
        return "Slots over time. No job has begun yet."
    busy, idle = sum(use.busy for use in data.slots), sum(use.idle for use in data.slots)
    attempts = sum(use.attempts for use in data.slots)
    return (
        f"Slots over time: {text.plural(attempts, 'attempt')} on {text.plural(len(data.slots), 'slot')}, "
        f"busy for {duration(busy)} in all, idle between attempts for {duration(idle)}."
    )

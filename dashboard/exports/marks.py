"""What a figure draws, as plain values: read from the JSON that the page hands to plotly.js.

Every export starts here, so that a file shows what the page shows. Only what our figures use is understood.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Value = float | str | None


@dataclass(frozen=True)
class Series:
    """One trace of points, lines, bars or text."""

    kind: str
    """`points` (lines and markers), `bars` (horizontal), `text`."""
    name: str
    what: str
    """What its points are, where they are not the figure's own numbers: `one seed`, `control`."""
    x: list[Value]
    y: list[Value]
    x_bar: tuple[list[float], list[float]] | None = None
    """Lengths of the bars of each point, to the left and to the right."""
    y_bar: tuple[list[float], list[float]] | None = None
    """Down and up."""
    base: list[float] | None = None
    """Where horizontal bars begin."""
    texts: list[str] = field(default_factory=list)
    colors: list[str] = field(default_factory=list)
    """One, or one a point."""
    lines: bool = False
    markers: bool = False
    width: float = 2.0
    dash: str = "solid"
    symbols: list[str] = field(default_factory=list)
    size: float = 6.0
    opacity: float = 1.0
    in_legend: bool = True
    is_key: bool = False
    """Drawn to be named in the legend: it has no point."""
    in_inset: bool = False


@dataclass(frozen=True)
class Field:
    """A map of cells: rows of values, None where there is none."""

    rows: list[list[float | None]]
    low: float
    high: float
    colors: list[str]
    """From the lowest to the highest."""
    scale: bool
    """Whether a scale of its colours stands beside it."""
    what: str
    """What the values are, with their unit."""


@dataclass(frozen=True)
class Axis:
    """One axis; positions are numbers, or places in `categories`."""

    title: str
    low: float | None
    high: float | None
    ticks: list[tuple[float, str]] | None
    """None where the numbers themselves are the labels."""
    categories: list[str]
    is_log: bool
    is_reversed: bool
    zero: bool
    """Whether a line stands at 0."""
    grid: bool
    by_prefix: bool
    """Whether large numbers are written with a prefix: 100k."""

    def place(self, value: Value) -> float | None:
        """Where a value stands."""
        return float(self.categories.index(value)) if isinstance(value, str) else value

    def label(self, value: Value) -> Value:
        """What a value is called: its category, or the label of the nearest tick where ticks have labels."""
        if value is None or isinstance(value, str) or not self.ticks or self.categories:
            return value
        return min(self.ticks, key=lambda tick: abs(tick[0] - value))[1]


@dataclass(frozen=True)
class Marks:
    """One figure."""

    series: list[Series]
    field: Field | None
    x: Axis
    y: Axis
    inset: tuple[Axis, Axis] | None
    boxes: list[Mapping[str, Any]]
    """Rectangles on cells: x0, x1, y0, y1, line."""
    notes: list[str]
    """What stands in the middle of an empty figure."""
    height: float | None
    """Pixels, of figures that grow with their rows."""


def marks_of(drawn: Mapping[str, Any]) -> Marks:
    """The marks of a figure as a page draws it."""
    layout = drawn["layout"]
    maps = [trace for trace in drawn["data"] if trace["type"] == "heatmap"]
    traces = [trace for trace in drawn["data"] if trace["type"] != "heatmap"]
    inset = None
    if "xaxis2" in layout:
        tails = [trace for trace in traces if trace.get("xaxis") == "x2"]
        inset = (_axis(layout["xaxis2"], tails, "x"), _axis(layout["yaxis2"], tails, "y"))
    own = [trace for trace in drawn["data"] if trace.get("xaxis") != "x2"]
    return Marks(
        series=[_series(trace) for trace in traces],
        field=_field(maps[0]) if maps else None,
        x=_axis(layout["xaxis"], own, "x"),
        y=_axis(layout["yaxis"], own, "y"),
        inset=inset,
        boxes=[shape for shape in layout.get("shapes") or () if shape.get("name") != "inset"],
        notes=[plain_text(note["text"]) for note in layout.get("annotations") or ()],
        height=layout.get("height"),
    )


def plain_text(text: Any) -> str:
    """Text without the tags and entities that plotly reads; a break of the line is one."""
    broken = re.sub(r"<br\s*/?>", "\n", str(text or ""))
    return html.unescape(re.sub(r"<[^>]+>", "", broken))


def _series(trace: Mapping[str, Any]) -> Series:
    x, y = _values(trace.get("x")), _values(trace.get("y"))
    marker, line = trace.get("marker") or {}, trace.get("line") or {}
    mode = trace.get("mode") or ""
    kind = "bars" if trace["type"] == "bar" else "text" if mode == "text" else "points"
    colors = (
        (trace.get("textfont") or {}).get("color")
        if kind == "text"
        else line.get("color") or marker.get("color")
    )
    return Series(
        kind=kind,
        name=plain_text(trace.get("name")),
        what=plain_text(trace.get("meta")),
        x=x,
        y=y,
        x_bar=_bar(trace.get("error_x")),
        y_bar=_bar(trace.get("error_y")),
        base=list(trace["base"]) if trace.get("base") is not None else None,
        texts=[plain_text(text) for text in _listed(trace.get("text"))],
        colors=[str(color) for color in _listed(colors)] or ["#000000"],
        lines="lines" in mode,
        markers="markers" in mode,
        width=float(line.get("width") or 2.0),
        dash=line.get("dash") or "solid",
        symbols=[str(symbol) for symbol in _listed(marker.get("symbol"))] or ["circle"],
        size=float(marker.get("size") or 6.0),
        opacity=float(trace.get("opacity") or marker.get("opacity") or 1.0),
        in_legend=trace.get("showlegend") is not False and bool(trace.get("name")),
        is_key=all(value is None for value in x),
        in_inset=trace.get("xaxis") == "x2",
    )


def _values(values: Any) -> list[Value]:
    return [plain_text(v) if isinstance(v, str) else None if v is None else float(v) for v in values or ()]


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _bar(error: Mapping[str, Any] | None) -> tuple[list[float], list[float]] | None:
    return (list(error["arrayminus"]), list(error["array"])) if error else None


def _field(trace: Mapping[str, Any]) -> Field:
    rows = [list(row) for row in trace["z"]]
    known = [value for row in rows for value in row if value is not None]
    low, high = trace.get("zmin"), trace.get("zmax")
    return Field(
        rows,
        min(known, default=0.0) if low is None else float(low),
        max(known, default=1.0) if high is None else float(high),
        [color if isinstance(color, str) else color[1] for color in trace["colorscale"]],
        trace.get("showscale") is not False,
        plain_text(trace["colorbar"]["title"]["text"]),
    )


def _axis(layout: Mapping[str, Any], traces: Iterable[Mapping[str, Any]], letter: str) -> Axis:
    values = [
        *_values(layout.get("categoryarray")),
        *(v for trace in traces for v in _values(trace.get(letter))),
    ]
    categories = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    ticks = None
    if layout.get("ticktext") is not None:
        ticks = [
            (float(at), plain_text(label))
            for at, label in zip(layout["tickvals"], layout["ticktext"], strict=True)
        ]
    elif categories:
        ticks = [(float(at), name) for at, name in enumerate(categories)]
    low, high = _range(layout.get("range"))
    return Axis(
        title=plain_text((layout.get("title") or {}).get("text")),
        low=low,
        high=high,
        ticks=ticks,
        categories=categories,
        is_log=layout.get("type") == "log",
        is_reversed=layout.get("autorange") == "reversed"
        or (low is not None and high is not None and low > high),
        zero=bool(layout.get("zeroline")),
        grid=layout.get("showgrid") is not False,
        by_prefix=str(layout.get("tickformat") or "").endswith("s"),
    )


def _range(bounds: Sequence[float] | None) -> tuple[float | None, float | None]:
    return (float(bounds[0]), float(bounds[1])) if bounds else (None, None)

"""A figure drawn by matplotlib, for print: SVG, PDF and PNG, without a browser."""

import io
from threading import Lock
from typing import Any, Literal

from headcount.dashboard.exports.marks import Axis, Field, Marks, Series, plain_text
from headcount.dashboard.figures import theme

Form = Literal["svg", "pdf", "png"]
Axes = Any
"""matplotlib's, which is imported only where a figure is drawn: that takes half a second."""

WIDTH, HEIGHT = 6.6, 4.1
"""Inches: the width of a text column and a half."""
PIXELS = 96.0
"""To the inch, of heights on the page."""
RESOLUTION = 300
LEGEND_COLUMNS = 4

SYMBOLS = {
    "circle": "o",
    "circle-open": "o",
    "square": "s",
    "square-open": "s",
    "diamond": "D",
    "diamond-cross-open": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "pentagon": "p",
    "star": "*",
    "x": "X",
    "x-thin-open": "x",
    "line-ew-open": "_",
}
DASHES = {"solid": "-", "dot": ":", "dash": "--"}
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.edgecolor": theme.MUTED,
    "axes.labelcolor": theme.INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": theme.INK,
    "ytick.color": theme.INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": theme.HAIRLINE,
    "grid.linewidth": 0.6,
    "pdf.fonttype": 42,
    "svg.hashsalt": "headcount",
}
_ONE_AT_A_TIME = Lock()
"""matplotlib keeps its style and its fonts for the whole process."""


def figure_file(marks: Marks, form: Form) -> bytes:
    """The figure as a file, on white; the same marks give the same bytes."""
    import matplotlib
    from matplotlib.figure import Figure

    metadata: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
    with _ONE_AT_A_TIME, matplotlib.rc_context(STYLE):
        height = marks.height / PIXELS if marks.height else HEIGHT
        figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="white")
        axes = figure.add_subplot()
        _draw(axes, marks)
        content = io.BytesIO()
        figure.savefig(content, format=form, dpi=RESOLUTION, metadata=metadata)
    return content.getvalue()


def _draw(axes: Axes, marks: Marks) -> None:
    if marks.field:
        _draw_field(axes, marks.field)
    for series in marks.series:
        if not series.in_inset:
            _draw_series(axes, series, marks.x, marks.y)
    for box in marks.boxes:
        _draw_box(axes, box)
    for axis, which in ((marks.x, "x"), (marks.y, "y")):
        _set_axis(axes, axis, which)
    for note in marks.notes:
        axes.text(0.5, 0.5, note, transform=axes.transAxes, ha="center", va="center", color=theme.MUTED)
    if marks.inset:
        inset = axes.inset_axes((0.6, 0.56, 0.385, 0.41))
        for series in marks.series:
            if series.in_inset:
                _draw_series(inset, series, *marks.inset)
        for axis, which in zip(marks.inset, "xy", strict=True):
            _set_axis(inset, axis, which)
        inset.tick_params(labelsize=6.5)
    _draw_legend(axes, [series.name for series in marks.series if series.in_legend])


def _draw_legend(axes: Axes, names: list[str]) -> None:
    """The named series in their order, row by row; matplotlib lists bars last, and fills columns."""
    if not names:
        return
    handles = {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    columns = [name for first in range(LEGEND_COLUMNS) for name in names[first::LEGEND_COLUMNS]]
    axes.legend(
        [handles[name] for name in columns],
        columns,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=LEGEND_COLUMNS,
        frameon=False,
        borderaxespad=0.3,
    )


def _draw_series(axes: Axes, series: Series, x_axis: Axis, y_axis: Axis) -> None:
    label = series.name if series.in_legend else None
    x = [x_axis.place(value) for value in series.x]
    y = [y_axis.place(value) for value in series.y]
    if series.kind == "bars":
        axes.barh(y, x, left=series.base, height=0.65, color=series.colors, label=label)
        return
    if series.kind == "text":
        colors = series.colors * (len(x) if len(series.colors) == 1 else 1)
        for at, up, words, color in zip(x, y, series.texts, colors, strict=True):
            if at is not None and up is not None:
                axes.text(at, up, words, color=color, ha="center", va="center", fontsize=6.5)
        return
    symbol = series.symbols[0]
    for group, filled in _groups(series):
        look: dict[str, Any] = {
            "color": series.colors[0],
            "alpha": series.opacity,
            "linestyle": DASHES.get(series.dash, "-") if series.lines else "none",
            "linewidth": 0.6 * series.width,
            "marker": SYMBOLS.get(symbol, "o") if series.markers else "none",
            "markersize": 0.55 * series.size,
            "markerfacecolor": series.colors[0] if filled else "none",
        }
        points = ([_gap(x[i]) for i in group], [_gap(y[i]) for i in group])
        bars = {
            f"{letter}err": [[end[i] for i in group] for end in bar]
            for letter, bar in (("x", series.x_bar), ("y", series.y_bar))
            if bar
        }
        if bars:
            axes.errorbar(*points, **bars, elinewidth=0.8, capsize=2, label=label, **look)
        else:
            axes.plot(*points, label=label, **look)
        label = None


def _groups(series: Series) -> list[tuple[list[int], bool]]:
    """Points that are filled and points that are open: one marker each."""
    every = range(len(series.x))
    if len(series.symbols) == 1:
        return [(list(every), "open" not in series.symbols[0])]
    split = [[i for i in every if ("open" in series.symbols[i]) == is_open] for is_open in (False, True)]
    return [(group, filled) for group, filled in zip(split, (True, False), strict=True) if group]


def _gap(value: float | None) -> float:
    return float("nan") if value is None else value


def _draw_field(axes: Axes, field: Field) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    values = [[_gap(value) for value in row] for row in field.rows]
    colors = LinearSegmentedColormap.from_list("cells", [_hex(color) for color in field.colors])
    mesh = axes.pcolormesh(
        [j - 0.5 for j in range(len(values[0]) + 1)],
        [i - 0.5 for i in range(len(values) + 1)],
        values,
        cmap=colors,
        vmin=field.low,
        vmax=field.high,
        edgecolors="white",
        linewidth=1.5,
    )
    if field.scale:
        bar = axes.figure.colorbar(mesh, ax=axes, pad=0.02, aspect=40)
        bar.outline.set_visible(False)
        bar.set_label(field.what)


def _hex(color: str) -> str:
    """`rgb(0, 34, 78)` as matplotlib reads it."""
    if not color.startswith("rgb("):
        return color
    red, green, blue = (round(float(part)) for part in color[4:-1].split(","))
    return f"#{red:02x}{green:02x}{blue:02x}"


def _draw_box(axes: Axes, box: Any) -> None:
    from matplotlib.patches import Rectangle

    line = box["line"]
    axes.add_patch(
        Rectangle(
            (box["x0"], box["y0"]),
            box["x1"] - box["x0"],
            box["y1"] - box["y0"],
            fill=False,
            edgecolor=line["color"],
            linewidth=0.7 * line["width"],
            linestyle=DASHES.get(line["dash"], "-"),
        )
    )


def _set_axis(axes: Axes, axis: Axis, which: str) -> None:
    low, high = axis.low, axis.high
    set_ = {name: getattr(axes, f"set_{which}{name}") for name in ("label", "scale", "lim", "ticks")}
    set_["label"](plain_text(axis.title))
    if axis.is_log:
        set_["scale"]("log")
    if axis.by_prefix:
        from matplotlib.ticker import EngFormatter

        getattr(axes, f"{which}axis").set_major_formatter(EngFormatter(sep=""))
    if axis.ticks is not None:
        set_["ticks"]([at for at, _ in axis.ticks], [label for _, label in axis.ticks])
    if low is not None and high is not None:
        set_["lim"](low, high)
    elif axis.categories:
        ends = (-0.6, len(axis.categories) - 0.4)
        set_["lim"](*(reversed(ends) if axis.is_reversed else ends))
    if axis.grid:
        axes.grid(axis="x" if which == "x" else "y", zorder=0)
        axes.set_axisbelow(True)
    if axis.zero:
        line = axes.axvline if which == "x" else axes.axhline
        line(0, color=theme.MUTED, linewidth=0.8, zorder=0.5)

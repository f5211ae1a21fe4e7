"""One look for every figure: the shared layout, the lines' colours, and the twin of each for a dark page.

A figure is drawn in the colours of the light page. On a dark page the script, like `dark` here, exchanges
each for its twin, so a figure is made and sent once. Lines are Okabe and Ito's palette, darkened on white and
lightened on black where the original has a contrast under 3:1; markers tell the lines apart too.
"""

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from plotly.colors import sample_colorscale, sequential

INK = "#1b1f24"
MUTED = "#565f6a"
HAIRLINE = "#e3e3dd"
SURFACE = "#fafaf8"
RUNNING = "#005f9e"
DIVERGED = "#8a5200"
FAILED = "#b03a00"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#b0568a", "#946a00", "#3a3f46", "#2a84b8", "#7a7a00")

DARK = {
    INK: "#e7eaee",
    MUTED: "#a0aab6",
    HAIRLINE: "#2c333c",
    SURFACE: "#121519",
    RUNNING: "#6cb8f2",
    DIVERGED: "#f0b440",
    FAILED: "#ff9060",
    SERIES[0]: "#56b4e9",
    SERIES[3]: "#cc79a7",
    SERIES[4]: "#e69f00",
    SERIES[5]: "#c9ced6",
    SERIES[6]: "#2f94d0",
    SERIES[7]: "#f0e442",
}
"""Each colour of the light page to its twin on the dark one."""

SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "pentagon", "star")
CELLS = tuple(reversed(sequential.Cividis))
"""The scale of cells, lowest loss first: the best is the brightest."""

_NOTE = {
    "xref": "paper",
    "yref": "paper",
    "x": 0.5,
    "y": 0.5,
    "showarrow": False,
    "font": {"color": MUTED, "size": 15},
}
"""In the middle of a figure without marks."""

NOTE_WIDTH = 46
"""Characters of its lines: what a phone has room for."""

FONT = "Inter, system-ui, -apple-system, Segoe UI, Liberation Sans, sans-serif"
CONFIG = {
    "displayModeBar": False,
    "displaylogo": False,
    "responsive": True,
    "showSendToCloud": False,
    "plotlyServerURL": "",
}
"""How plotly.js runs: no share button, no other host. Exports are buttons of the page, outside the image."""


def figure(traces: Sequence[Any], *, nothing: str = "", **layout: Any) -> dict[str, Any]:
    """The figure's JSON in the shared layout; `layout` adds to it, or overrides it.

    `nothing`: where there is nothing to draw, why, and what would fill the figure.
    """
    if nothing:
        layout |= _without_marks(nothing, layout)
    shared = {
        "font": {"family": FONT, "size": 13, "color": MUTED},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 62, "r": 16, "t": 36, "b": 52},
        "hoverlabel": {
            "bgcolor": INK,
            "bordercolor": INK,
            "font": {"family": FONT, "size": 13, "color": SURFACE},
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 1.02,
            "yanchor": "bottom",
            "font": {"color": INK},
            "bgcolor": "rgba(0,0,0,0)",
        },
        # a constant: an update keeps what the viewer zoomed, panned and hid
        "uirevision": "kept",
    }
    # `go.Figure` would check the layout, which takes longer than all the rest of a page: a test does that
    return {"data": [trace.to_plotly_json() for trace in traces], "layout": _told(shared | layout)}


def _without_marks(why: str, layout: Mapping[str, Any]) -> dict[str, Any]:
    """Axes without numbers, which would be made up, and in the middle why."""
    bare = {"showticklabels": False, "showgrid": False, "zeroline": False}
    lines = ["No result yet", *textwrap.wrap(why, NOTE_WIDTH)]
    note = _NOTE | {"text": "<br>".join(map(plain, lines))}
    return {"annotations": [note]} | {name: layout.get(name, {}) | bare for name in ("xaxis", "yaxis")}


def _told(value: Any) -> Any:
    """Without the entries that are None: those are plotly's own defaults."""
    if isinstance(value, dict):
        return {key: _told(item) for key, item in value.items() if item is not None}
    return [_told(item) for item in value] if isinstance(value, list | tuple) else value


def axis(title: str = "", **more: Any) -> dict[str, Any]:
    """An axis with a hairline grid and no frame."""
    return {
        "title": {"text": plain(title), "font": {"color": MUTED, "size": 13}, "standoff": 12},
        "gridcolor": HAIRLINE,
        "linecolor": HAIRLINE,
        "tickfont": {"color": MUTED},
        "zeroline": False,
        "automargin": True,
        **more,
    }


def counted(count: int) -> dict[str, Any]:
    """Of an axis along what is numbered from 0, so many of them: ticks at whole numbers, a dozen at most."""
    return {"tick0": 0, "dtick": max(1, -(-count // 12))}


def color_bar(what: str, **more: Any) -> dict[str, Any]:
    """The scale of colours beside a map; `what` they stand for, with its unit."""
    return {
        "title": {"text": plain(what), "side": "right", "font": {"color": MUTED, "size": 12}},
        "thickness": 9,
        "outlinewidth": 0,
        "tickfont": {"color": MUTED, "size": 11},
        **more,
    }


def cell_color(fraction: float) -> str:
    """The colour at `fraction` of the scale of cells, as `rgb(r, g, b)`."""
    color: str = sample_colorscale(CELLS, [fraction])[0]
    return color


def cell_ink(fraction: float) -> str:
    """Black or white: what reads better on the colour at `fraction` of the scale of cells."""
    red, green, blue = (float(c) for c in cell_color(fraction)[4:-1].split(","))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 117 else "#ffffff"


def plain(text: object) -> str:
    """Text that plotly draws as it is: it reads a few HTML tags and entities otherwise."""
    return html.escape(str(text), quote=False)


def dark(drawn: Any) -> Any:
    """The same figure in the colours of a dark page."""
    if isinstance(drawn, dict):
        return {key: dark(value) for key, value in drawn.items()}
    if isinstance(drawn, list | tuple):
        return [dark(value) for value in drawn]
    return DARK.get(drawn, drawn) if isinstance(drawn, str) else drawn

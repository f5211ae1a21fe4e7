"""The tail of curves by step, larger, in the corner that falling losses leave free."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from headcount.dashboard.figures import theme

LEFT, RIGHT, BOTTOM, TOP = 0.6, 0.985, 0.56, 0.97
"""Of the figure's width and height."""


def inset_layout(traces: Sequence[Any], last: int) -> dict[str, Any]:
    """The thick lines again over the last quarter of `last` steps: `traces`, and the layout that they need.

    Empty where fewer than two points of a line lie there.
    """
    start = 0.75 * last
    thick, values = [], []
    for trace in traces:
        tail = [(x, y) for x, y in zip(trace.x, trace.y, strict=True) if x >= start and y is not None]
        if trace.showlegend is False or len(tail) < 2:
            continue
        values += [y for _, y in tail]
        thick.append(
            go.Scatter(
                x=[x for x, _ in tail],
                y=[y for _, y in tail],
                mode="lines",
                line=trace.line,
                xaxis="x2",
                yaxis="y2",
                hoverinfo="skip",
                legendgroup=trace.legendgroup,
                showlegend=False,
                name=trace.name,
            )
        )
    if not thick:
        return {}
    room = 0.08 * (max(values) - min(values)) or 0.001
    small = {"tickfont": {"color": theme.MUTED, "size": 10}, "nticks": 3, "automargin": False}
    return {
        "traces": thick,
        "xaxis2": theme.axis(domain=[LEFT, RIGHT], anchor="y2", range=[start, last], tickformat=",") | small,
        "yaxis2": theme.axis(
            domain=[BOTTOM, TOP],
            anchor="x2",
            range=[min(values) - room, max(values) + room],
            tickformat=".3~f",
        )
        | small,
        "shapes": [
            {
                "name": "inset",
                "type": "rect",
                "xref": "paper",
                "yref": "paper",
                "x0": LEFT - 0.06,
                "x1": RIGHT + 0.012,
                "y0": BOTTOM - 0.08,
                "y1": TOP + 0.03,
                "layer": "below",
                "line": {"width": 1, "color": theme.HAIRLINE},
                "fillcolor": theme.SURFACE,
            }
        ],
    }

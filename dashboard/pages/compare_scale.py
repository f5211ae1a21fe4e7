"""Several figures on one vertical scale, so that they can be read side by side."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from headcount.dashboard.panel import Figure


def on_one_scale(figures: Sequence[Figure]) -> list[Figure]:
    """The figures with one range of their vertical axes: what each would show, taken together."""
    ends = [end for figure in figures for end in _ends(figure.drawn)]
    if not ends:
        return list(figures)
    room = 0.06 * (max(ends) - min(ends)) or 0.01
    shared = [min(ends) - room, max(ends) + room]
    return [replace(figure, drawn=_ranged(figure.drawn, shared)) for figure in figures]


def _ends(drawn: dict[str, Any]) -> Iterator[float]:
    """The ends of a figure's range, where it has one, else of all that is drawn in it."""
    axis = drawn["layout"].get("yaxis", {})
    if axis.get("range"):
        yield from axis["range"]
        return
    for trace in drawn["data"]:
        values = [value for value in trace.get("y", ()) if value is not None]
        yield from values
        bars = trace.get("error_y", {})
        for value, above, below in zip(
            values, bars.get("array", ()), bars.get("arrayminus", ()), strict=False
        ):
            yield from (value + above, value - below)
        if values and axis.get("zeroline"):
            yield 0.0


def _ranged(drawn: dict[str, Any], shared: list[float]) -> dict[str, Any]:
    layout = drawn["layout"]
    return {**drawn, "layout": {**layout, "yaxis": {**layout.get("yaxis", {}), "range": shared}}}

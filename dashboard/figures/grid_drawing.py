"""The drawing of the grid: values on their colours, and a look of its own for each way to have none."""

from typing import Any

import plotly.graph_objects as go

from headcount.dashboard import text
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.grid import GridCell, GridData

LOOKS = {
    "diverged": ("x", theme.DIVERGED),
    "failed": ("triangle-up", theme.FAILED),
    "running": ("circle-open", theme.RUNNING),
    "missing": ("line-ew-open", theme.MUTED),
}
"""The marker and colour of a cell without a value, by the cell's state."""
UNDERWAY = {"running": "○ ", "failed": "▲ "}
"""Before the n of a cell that has a value although some seed has none."""


def grid_figure(data: GridData) -> dict[str, Any]:
    """The figure, drawn for the light page."""
    traces = [_heatmap(data), _values(data), *_states(data)]
    inks = _inks(data)
    shapes = [
        _outline(cell, ink)
        for cell, ink in zip(data.cells, inks, strict=True)
        if cell.value is None or cell.diagonal
    ]
    alone = [
        (cell, ink)
        for cell, ink in zip(data.cells, inks, strict=True)
        if cell.n == 1 and cell.value is not None
    ]
    shapes += [_one_seed(cell, ink) for cell, ink in alone]
    if alone:
        traces.append(_legend_entry("one seed", {"color": theme.INK, "width": 1.6, "dash": "dot"}))
    if any(cell.diagonal for cell in data.cells):
        traces.append(_legend_entry("H = KV", {"color": theme.INK, "width": 1.6, "dash": "dash"}))
    return theme.figure(
        traces,
        xaxis=theme.axis(
            text.long(data.column_axis),
            tickvals=list(range(len(data.columns))),
            ticktext=list(map(theme.plain, data.columns)),
            range=[-0.5, len(data.columns) - 0.5],
            showgrid=False,
        ),
        yaxis=theme.axis(
            text.long(data.row_axis),
            tickvals=list(range(len(data.rows))),
            ticktext=list(map(theme.plain, data.rows)),
            range=[len(data.rows) - 0.5, -0.5],
            showgrid=False,
        ),
        shapes=shapes,
    )


def _heatmap(data: GridData) -> Any:
    values: list[list[float | None]] = [[None] * len(data.columns) for _ in data.rows]
    hover = [[""] * len(data.columns) for _ in data.rows]
    for cell in data.cells:
        values[cell.row][cell.column] = cell.value
        hover[cell.row][cell.column] = _hover(data, cell)
    signed = data.measure == "delta"
    return go.Heatmap(
        z=values,
        hovertext=hover,
        hoverinfo="text",
        colorscale=theme.CELLS,
        xgap=3,
        ygap=3,
        hoverongaps=False,
        showscale=any(cell.value is not None for cell in data.cells),
        colorbar=theme.color_bar(
            "Delta, nats" if signed else "Loss, nats",
            tickformat=".3~f",
            nticks=5,
            x=1.01,
        ),
    )


def _values(data: GridData) -> Any:
    """What stands on each cell: its number and n, or how many seeds it has under the marker of its state."""
    size = 13 if len(data.columns) <= 5 else 11
    known = [cell.value is not None for cell in data.cells]
    colors = [
        ink if has else LOOKS[_look(cell)][1]
        for cell, ink, has in zip(data.cells, _inks(data), known, strict=True)
    ]
    return go.Scatter(
        x=[cell.column for cell in data.cells],
        y=[cell.row if has else cell.row + 0.2 for cell, has in zip(data.cells, known, strict=True)],
        text=[
            _label(data, cell) if has else _count(cell) for cell, has in zip(data.cells, known, strict=True)
        ],
        mode="text",
        textfont={"size": size, "color": colors},
        hoverinfo="skip",
        showlegend=False,
    )


def _inks(data: GridData) -> list[str]:
    """For each cell what reads on its colour, or on the page where it has no value."""
    known = [cell.value for cell in data.cells if cell.value is not None]
    low, span = (min(known), max(known) - min(known)) if known else (0.0, 0.0)
    return [
        theme.INK if cell.value is None else theme.cell_ink((cell.value - low) / span if span else 0.0)
        for cell in data.cells
    ]


def _label(data: GridData, cell: GridCell) -> str:
    value = text.signed(cell.value) if data.measure == "delta" else text.number(cell.value)
    shown = f"<b>{value}</b>" if cell.best else value
    count = f"n = {cell.n}" if cell.n == cell.planned else f"n = {cell.n} of {cell.planned}"
    count = UNDERWAY.get(cell.state, "") + count
    if cell.best:
        count = f"<b>★</b> {count}"
    return f"{shown}<br><span style='font-size:0.82em'>{count}</span>"


def _states(data: GridData) -> list[Any]:
    """A marker on each cell without a value; the legend names them."""
    traces = []
    for state, (symbol, color) in LOOKS.items():
        cells = [cell for cell in data.cells if cell.value is None and _look(cell) == state]
        if cells:
            traces.append(
                go.Scatter(
                    x=[cell.column for cell in cells],
                    y=[cell.row - 0.12 for cell in cells],
                    mode="markers",
                    marker={
                        "symbol": symbol,
                        "size": 11,
                        "color": color,
                        "line": {"width": 2, "color": color},
                    },
                    hovertext=[_hover(data, cell) for cell in cells],
                    hoverinfo="text",
                    name=state,
                )
            )
    return traces


def _look(cell: GridCell) -> str:
    """A cell that is done but has no delta looks like a missing one: what is missing is its control."""
    return cell.state if cell.state in LOOKS else "missing"


def _count(cell: GridCell) -> str:
    lost = cell.note.partition(" of ")[0] if cell.state in ("diverged", "failed") else str(cell.n)
    return f"<span style='font-size:0.82em'>{lost} of {cell.planned}</span>"


def _outline(cell: GridCell, ink: str) -> dict[str, Any]:
    """A cell's border: dashed where H = KV, dotted where the cell has no value."""
    line = (
        {"color": ink, "width": 1.6, "dash": "dash"}
        if cell.diagonal
        else {"color": LOOKS[_look(cell)][1], "width": 1, "dash": "dot"}
    )
    return _square(cell, 0.46, line)


def _one_seed(cell: GridCell, ink: str) -> dict[str, Any]:
    """A dotted border inside the cell: its value has no error."""
    return _square(cell, 0.4, {"color": ink, "width": 1.4, "dash": "dot"})


def _square(cell: GridCell, edge: float, line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "rect",
        "x0": cell.column - edge,
        "x1": cell.column + edge,
        "y0": cell.row - edge,
        "y1": cell.row + edge,
        "line": line,
    }


def _legend_entry(name: str, line: dict[str, Any]) -> Any:
    return go.Scatter(x=[None], y=[None], mode="lines", line=line, name=name, hoverinfo="skip")


def _hover(data: GridData, cell: GridCell) -> str:
    signed = data.measure == "delta"
    value = (text.signed if signed else text.number)(cell.value) if cell.value is not None else cell.state
    lines = [theme.plain(cell.name), f"<b>{value}</b>", f"n = {cell.n} of {cell.planned}"]
    if cell.note:
        lines.append(theme.plain(cell.note))
    if cell.best:
        lines.append("lowest mean loss among the cells with the most seeds")
    return "<br>".join(lines)

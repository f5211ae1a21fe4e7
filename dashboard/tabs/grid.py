"""Every cell over two axes."""

from headcount.api.results import QueryError, grid
from headcount.dashboard import text
from headcount.dashboard.figures import grid as grids
from headcount.dashboard.figures.grid_drawing import grid_figure
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View


def grid_figures(view: View) -> list[Figure]:
    """The grid of the chosen axes, at the chosen value of every other; none where one axis alone varies."""
    table, choice, measure = view.table, view.choice, view.measure
    try:
        squares = grid(table, choice.option("rows") or choice.lines, choice.option("columns"))
    except QueryError:
        return []
    figures: list[Figure] = []
    for panel in squares.panels:
        if not choice.shows(panel.settings):
            continue
        data = grids.grid_data(squares, panel, measure)
        figures.append(
            Figure(
                id=f"grid-{measure}" + (f"-{len(figures)}" if figures else ""),
                title=f"{'Delta' if measure == 'delta' else 'Loss'} of every cell"
                + (f", {text.settings(panel.settings, choice.fixed)}" if figures else ""),
                drawn=grid_figure(data),
                summary=grids.grid_summary(data),
                caption=caption(table, choice, "★ lowest mean loss of those with the most seeds", []),
                table=grids.grid_table(data),
                kind="grid",
            )
        )
    return figures

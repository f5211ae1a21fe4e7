"""Every chosen cell against its control, with the interval that the address names."""

from headcount.dashboard import text
from headcount.dashboard.figures import forest
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View

METHODS = {"holm": "Holm", "benjamini_hochberg": "Benjamini and Hochberg"}
"""Whose correction a family's p-values carry."""


def paired_figures(view: View) -> list[Figure]:
    """The forest plot of the deltas; none in a sweep without controls."""
    table, choice, family = view.table, view.choice, view.statistics.family
    if all(row.control is None for row in table.treatments):
        return []
    rows = [row for row in table.treatments if choice.shows(row.settings)]
    data = forest.forest_data(rows, view.statistics, view.bars, choice.fixed)
    marks = (
        f"Bars: {data.bars}; filled: the delta is told from 0 by {METHODS[family.method]}'s p over "
        f"{text.plural(family.size, 'comparison')} (level {family.alpha:g}); {table.test}"
    )
    if data.cells > len(data.rows):
        marks += f"; showing the lowest {len(data.rows)} of {data.cells} cells"
    return [
        Figure(
            id="paired",
            title="Delta of every cell to its control",
            drawn=forest.forest_figure(data),
            summary=forest.forest_summary(data),
            caption=caption(table, choice, marks, data.absent),
            table=forest.forest_table(data),
            kind="tall",
        )
    ]

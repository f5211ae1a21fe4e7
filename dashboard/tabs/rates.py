"""The loss against the learning rate, and every setting at its best rate against its control at its own."""

from headcount.api.results.best_rates import best_rate_records
from headcount.api.results.records import Record
from headcount.api.results.selection import RATE, rate_choices
from headcount.dashboard import text
from headcount.dashboard.figures import forest
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.heads import curve_figure
from headcount.dashboard.tabs.view import View

EDGE = "†"
"""Behind a rate that is an end of those tried."""


def rate_figures(view: View) -> list[Figure]:
    """A line for each number of routing heads, and best against best."""
    if view.curve is None:
        return []
    # a best rate at an end of the grid may not be the best
    edges = {choice.cell for choice in rate_choices(view.table) if choice.at_edge}
    return [curve_figure(view, "rates", edges), *_best_figures(view)]


def _best_figures(view: View) -> list[Figure]:
    records, family = best_rate_records(view.table)
    axes = [axis for axis in view.table.axes if axis != RATE]
    shown = [one for one in records if view.choice.shows({axis: one.get(axis) for axis in axes})]
    if not shown:
        return []
    rows, absent = [], []
    for record in shown:
        name = _name(record, axes, view.choice.fixed)
        if record["delta"] is None:
            absent.append(text.Absent(name, "no pair"))
            continue
        ends = (record["low"], record["high"], record["pairs"], record["p"], record["adjusted_p"])
        rejected = record["adjusted_p"] is not None and record["adjusted_p"] <= family.alpha
        rows.append(forest.ForestRow(name, record["delta"], *ends, rejected))
    rows.sort(key=lambda row: row.mean)
    data = forest.ForestData(rows[: forest.MOST_ROWS], "95 % t interval", len(rows), absent)
    marks = (
        f"Each at the rate with its lowest loss; {EDGE}: an end of the rates tried, a better one may lie "
        "beyond. A rate that is chosen by the losses that are reported flatters both sides; bars: 95 % t "
        "interval; filled: told from 0 by Holm's p over "
        f"{text.plural(family.size, 'comparison')} (level {family.alpha:g})"
    )
    if data.cells > len(data.rows):
        marks += f"; showing the lowest {len(data.rows)} of {data.cells} settings"
    return [
        Figure(
            id="best-rates",
            title="Best against best",
            drawn=forest.forest_figure(data),
            summary=f"Each side at its own best learning rate. {forest.forest_summary(data)}",
            caption=caption(view.table, view.choice, marks, absent),
            table=forest.forest_table(data),
            kind="tall",
            csv=view.api("tables/best_lr.csv"),
        )
    ]


def _name(record: Record, axes: list[str], without: tuple[str, ...]) -> str:
    """H 8: 1e-3 against 5e-4†."""
    cell = text.settings({axis: record[axis] for axis in axes if axis in record}, without)
    own = text.setting(record["best_rate"]) + (EDGE if record["at_edge"] else "")
    control = text.setting(record["control_rate"]) + (EDGE if record["control_at_edge"] else "")
    return f"{cell or 'all cells'}: {own} against {control}"

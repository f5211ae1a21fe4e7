"""What instruments found of a sweep's models, on its Depth tab: where none looked, nothing."""

from collections.abc import Iterator

from headcount.api.results import QueryError, items_table, measured_table
from headcount.api.results.instruments import DOWNSTREAM, figures
from headcount.api.results.probed import Probed, probed_cells
from headcount.api.results.reference import published_table
from headcount.api.results.tables import TableRow
from headcount.dashboard import text
from headcount.dashboard.figures import probed
from headcount.dashboard.figures.table import FigureTable
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View

MOST_LINES = 8

_PUBLISHED = {"lambada": "lambada", "hellaswag": "hellaswag", "wikitext2_ppl": "wikitext"}
"""Column of the published table to the beginning of the task's name at lm-eval."""


def instrument_figures(view: View, chosen: list[TableRow], mapped: TableRow | None) -> Iterator[Figure]:
    """Figures of the probed ones of the `chosen` cells, the heads of `mapped`, and downstream scores."""
    found = probed_cells(view.session, view.table.sweep, [row.cell for row in chosen], view.read)
    if found:
        yield from _probe_figures(view, [row for row in chosen if row.cell in found], found, mapped)
    if figures(view.session, view.table.sweep, DOWNSTREAM).told:
        yield _scores(view)


def _probe_figures(
    view: View, rows: list[TableRow], found: dict[int, Probed], mapped: TableRow | None
) -> Iterator[Figure]:
    lines = [probed.ProbedLine(_name(view, row), found[row.cell]) for row in rows[:MOST_LINES]]
    marks = "The newest finished probe of each job, mean over tokens and jobs"
    if len(rows) > MOST_LINES:
        marks += f"; showing {MOST_LINES} of {len(rows)} probed cells"
    dashed = "dashed: random queries of each trained query's norm"
    summary, table = probed.probed_summary(lines), probed.probed_table(lines)
    for id, title, drawn, more in (
        ("probe-disagreement", "Width disagreement", probed.disagreement_figure(lines), f"; {dashed}"),
        ("probe-oldest", "What late layers read of the embedding", probed.oldest_figure(lines), ""),
    ):
        described = caption(view.table, view.choice, marks + more, [])
        yield Figure(id=id, title=title, drawn=drawn, summary=summary, caption=described, table=table)
    row = mapped if mapped is not None and mapped.cell in found else rows[0]
    name, own = _name(view, row), found[row.cell]
    heads = own.sites[0].weights.shape[1]
    marks = f"Of {name}, {heads} heads, or slices where the model has one; weight less the heads' mean"
    if len(own.sites) > probed.MOST_SITES:
        marks += f"; the first {probed.MOST_SITES} of {len(own.sites)} sites"
    yield Figure(
        id="probe-heads",
        title=f"How heads differ: {name}",
        drawn=probed.deviation_figure(own),
        summary=probed.deviation_summary(name, own),
        caption=caption(view.table, view.choice, f"{marks} ({text.seeds(own.seeds)})", []),
        table=probed.deviation_table(own),
        kind="grid",
    )


def _scores(view: View) -> Figure:
    """Ours, and in the table the published ones of the same tasks beside them."""
    told = measured_table(view.session, view.table.sweep, "downstream", view.table).rows
    records = [record for record in told if record["score"] is not None]
    rows = {row.cell: row for row in view.table.rows}
    paired = _on_same_items(view)
    scores, cells = [], []
    for record in records:
        row = rows[record["cell"]]
        name = text.cell_name(row.settings, row.is_control, view.choice.fixed)
        task = f"{record['task']} {record['metric']}"
        scores.append(probed.Score(name, task, record["score"], record["item_se"], record["n"]))
        delta = "" if record["delta"] is None else text.signed(record["delta"])
        error = "" if record["item_se"] is None else text.number(record["item_se"])
        same = paired.get((record["cell"], record["task"], record["metric"]), ("", ""))
        cells.append([name, task, text.number(record["score"]), error, str(record["n"]), delta, *same])
    tasks = {record["task"] for record in records}
    published = list(_published(tasks))
    columns = ["Cell", "Task", "Score", "Error over items", "Seeds", "Delta"]
    columns += ["Same items", "p"]
    titled = "Scores, their error over items, and the delta to the control paired by seed."
    if paired:
        titled += (
            " On the same items, a 95 % bootstrap of items and McNemar's p, of these models and not of their "
            "methods."
        )
    if published:
        titled += " Published rows are of other recipes: compare signs, subtract nothing."
    summary = "; ".join(f"{score.name}, {score.task}: {text.number(score.mean)}" for score in scores)
    marks = "The newest score of each job, mean over seeds; bars: the standard error over a task's items"
    return Figure(
        id="downstream",
        title="Downstream tasks",
        drawn=probed.scores_figure(scores),
        summary=f"Downstream tasks. {summary}.",
        caption=caption(view.table, view.choice, marks, []),
        table=FigureTable(columns, [*cells, *published], titled, numbers_from=2),
    )


def _on_same_items(view: View) -> dict[tuple[int, str, str], tuple[str, str]]:
    """By cell, task and metric, the treatment less its control item by item, and its p; in words."""
    try:
        records = items_table(view.session, view.table.sweep, view.read).rows
    except QueryError:
        return {}
    return {
        (record["cell"], record["task"], record["metric"]): (
            f"{text.signed(record['delta'], 3)} {text.interval(record['low'], record['high'], 3)}",
            "" if record["p"] is None else text.p_value(record["p"]),
        )
        for record in records
    }


def _published(tasks: set[str]) -> Iterator[list[str]]:
    for row in published_table("v2_downstream"):
        for column, start in _PUBLISHED.items():
            if row[column] and any(task.startswith(start) for task in tasks):
                name = f"published: {row['scale']} {row['method']} ({row['source']})"
                yield [name, column, row[column], "", row["seeds"], "", "", ""]


def _name(view: View, row: TableRow) -> str:
    return text.cell_name(row.settings, row.is_control, view.choice.fixed)

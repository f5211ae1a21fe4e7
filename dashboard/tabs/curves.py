"""Curves by step of the chosen cells: validation or training loss, delta, and the distance of a pair."""

import io
from collections.abc import Sequence

import numpy as np

from headcount.api.results import TableRow
from headcount.api.results.cell_curves import CellCurve, cell_curves, delta_curve
from headcount.api.results.kept import kept_files
from headcount.api.results.training_curves import training_curves
from headcount.dashboard import text
from headcount.dashboard.figures import cell_curves as steps
from headcount.dashboard.figures import pair_steps
from headcount.dashboard.figures.pair_steps import Losses, StepLine
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View

MOST_CURVES = 24
"""Cells whose curves one figure draws; a filter shows the others."""

MOST_PAIRS = 6
"""Pairs whose distance one figure draws: each is two files."""


def curve_figures(view: View) -> list[Figure]:
    """The curves that are chosen."""
    if view.choice.option("y") == "pair":
        return [_pair_figure(view)]
    return [_curves_figure(view, view.choice.option("y") == "training")]


def _curves_figure(view: View, training: bool) -> Figure:
    table, choice, measure = view.table, view.choice, view.measure
    chosen = _chosen(view)
    shown = chosen[:MOST_CURVES]
    controls = [row for row in table.controls if any(row.cell == one.control for one in shown)]
    read = training_curves if training else cell_curves
    found = read(view.session, table.sweep, [row.cell for row in (*shown, *controls)])
    rows = shown if measure == "delta" else [*shown, *controls]
    lines, absent = _lines(view, rows, found)
    what = "Training loss" if training else "Validation loss"
    data = steps.CellCurvesData(measure, lines, what, float(choice.option("smooth") or 0))
    marks = "Thick: mean over the seeds, where all have come to the step; thin: one seed each; "
    marks += f"moving average of weight {data.smooth:g}, faint without it" if data.smooth else "no smoothing"
    if training:
        marks += "; losses of single batches, mean over bins of steps"
    if measure == "loss":
        marks += "; inset: the last quarter"
    marks += steps.runs_out(data)
    if len(chosen) > len(shown):
        marks += f"; showing {len(shown)} of {len(chosen)} cells"
    return Figure(
        id="curves-training" if training else f"curves-{measure}",
        title="Delta to the control by step" if measure == "delta" else f"{what} by step",
        drawn=steps.cell_curves_figure(data),
        summary=steps.cell_curves_summary(data),
        caption=caption(table, choice, marks, absent),
        table=steps.cell_curves_table(data),
        csv="" if training else view.api("evaluations.csv"),
    )


def _chosen(view: View) -> list[TableRow]:
    return [row for row in view.table.treatments if view.choice.shows(row.settings)]


def _lines(
    view: View, rows: Sequence[TableRow], found: dict[int, CellCurve]
) -> tuple[list[steps.NamedCurve], list[text.Absent]]:
    lines, absent = [], []
    for row in rows:
        name = text.cell_name(row.settings, row.is_control, view.choice.fixed)
        curve = found.get(row.cell)
        if curve and view.measure == "delta":
            control = found.get(row.control) if row.control is not None else None
            curve = delta_curve(curve, control) if control else None
        if curve and curve.steps:
            lines.append(steps.NamedCurve(name, curve, row.is_control))
        else:
            absent.append(text.Absent(name, "nothing to draw yet"))
    return lines, absent


def _pair_figure(view: View) -> Figure:
    """|Δ| of each chosen cell at one seed, and how far its control goes from batch to batch."""
    seed = int(view.choice.option("seed") or 0)
    chosen = [row for row in _chosen(view) if row.control is not None]
    shown = chosen[:MOST_PAIRS]
    cells = {cell for row in shown for cell in (row.cell, row.control) if cell is not None}
    losses = _losses(view, sorted(cells), seed)
    lines: list[StepLine] = []
    absent, noises = [], {}
    for row in shown:
        assert row.control is not None
        name = text.cell_name(row.settings, False, view.choice.fixed)
        control = losses.get(row.control)
        if row.cell not in losses or control is None:
            absent.append(text.Absent(name, f"no losses of an ended pair at seed {seed}"))
            continue
        lines.append(pair_steps.pair_line(name, losses[row.cell], control))
        of_control = text.cell_name(view.table.row(row.control).settings, True, view.choice.fixed)
        noises[row.control] = pair_steps.noise_line(f"batch noise of the {of_control}", control)
    lines += noises.values()
    smooth = float(view.choice.option("smooth") or 0)
    marks = (
        f"At seed {seed}: both of a pair see the same batches; dotted: the control from batch to batch. "
        "Means of neighbouring updates" + (f", moving average of weight {smooth:g}" if smooth else "")
    )
    if len(chosen) > len(shown):
        marks += f"; showing {len(shown)} of {len(chosen)} cells"
    return Figure(
        id="curves-pair",
        title="Distance of a pair by update",
        drawn=pair_steps.pair_steps_figure(lines, smooth),
        summary=pair_steps.pair_steps_summary(lines),
        caption=caption(view.table, view.choice, marks, absent),
        table=pair_steps.pair_steps_table(lines),
    )


def _losses(view: View, cells: Sequence[int], seed: int) -> dict[int, Losses]:
    """The training loss of every update of the job of each cell at a seed, of those that have ended."""
    found = {}
    for file in kept_files(view.session, view.table.sweep, cells, "curve"):
        content = view.read(file.key) if file.seed == seed else None
        if content is not None:
            found[file.cell] = np.load(io.BytesIO(content), allow_pickle=False)
    return found

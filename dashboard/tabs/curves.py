"""The loss by step of the chosen cells and their controls, or their delta by step."""

from headcount.api.results.cell_curves import cell_curves, delta_curve
from headcount.dashboard import text
from headcount.dashboard.figures import cell_curves as steps
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View

MOST_CURVES = 24
"""Cells whose curves one figure draws; a filter shows the others."""


def curve_figures(view: View) -> list[Figure]:
    """The loss by step of the chosen cells and their controls, or their delta by step."""
    table, choice, measure = view.table, view.choice, view.measure
    chosen = [row for row in table.treatments if choice.shows(row.settings)]
    controls = [row for row in table.controls if any(row.cell == one.control for one in chosen)]
    shown = chosen[:MOST_CURVES]
    found = cell_curves(view.session, table.sweep, [row.cell for row in (*shown, *controls)])
    lines, absent = [], []
    for row in shown if measure == "delta" else [*shown, *controls]:
        name = text.cell_name(row.settings, row.is_control, choice.fixed)
        curve = found.get(row.cell)
        if curve and measure == "delta":
            control = found.get(row.control) if row.control is not None else None
            curve = delta_curve(curve, control) if control else None
        if curve and curve.steps:
            lines.append(steps.NamedCurve(name, curve, row.is_control))
        else:
            absent.append(f"{name}: nothing to draw yet")
    data = steps.CellCurvesData(measure, lines, absent)
    marks = "Thick: mean over the seeds, where all have come to the step; thin: one seed each; no smoothing"
    if len(chosen) > len(shown):
        marks += f"; showing {len(shown)} of {len(chosen)} cells"
    return [
        Figure(
            id=f"curves-{measure}",
            title=f"{'Delta to the control' if measure == 'delta' else 'Validation loss'} by step",
            drawn=steps.cell_curves_figure(data),
            summary=steps.cell_curves_summary(data),
            caption=caption(table, choice, marks, absent),
            table=steps.cell_curves_table(data),
            csv=view.api("evaluations.csv"),
        )
    ]

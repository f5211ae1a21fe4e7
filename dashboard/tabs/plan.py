"""What was planned against what came: the forecast time of each cell's jobs and the time they took."""

from headcount.api.results.timeline import timeline
from headcount.dashboard import text
from headcount.dashboard.figures import forecast
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View


def plan_figures(view: View) -> list[Figure]:
    """Forecast against actual; none before two cells have finished a job."""
    names = {
        row.cell: text.cell_name(row.settings, row.is_control, view.choice.constant)
        for row in view.table.rows
    }
    points = forecast.forecast_points(timeline(view.session, view.table.sweep).own, names)
    if not points:
        return []
    marks = (
        "Forecast: the cell's FLOPs at the median rate of the jobs of all other cells, as a plan reckons; "
        "actual: mean over the jobs that one attempt trained from start to end"
    )
    return [
        Figure(
            id="forecast",
            title="Time of a job: forecast against actual",
            drawn=forecast.forecast_figure(points),
            summary=forecast.forecast_summary(points),
            caption=caption(view.table, view.choice, marks, []),
            table=forecast.forecast_table(points),
        )
    ]

"""Tokens a second of every cell."""

from headcount.api.results.instruments import figure
from headcount.dashboard.figures import speed
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View


def speed_figures(view: View) -> list[Figure]:
    """Tokens a second of every cell."""
    data = speed.speed_data(view.table, view.choice.constant, figure(view.session, view.table.sweep, "mfu"))
    marks = "As trained, evaluations and checkpoints apart; jobs that shared a machine slow each other"
    if data.cells > len(data.bars):
        marks += f"; showing the fastest {len(data.bars)} of {data.cells} cells"
    return [
        Figure(
            id="speed",
            title="Speed of every cell",
            drawn=speed.speed_figure(data),
            summary=speed.speed_summary(data),
            caption=caption(view.table, view.choice, marks, []),
            table=speed.speed_table(data),
            kind="tall",
            csv=view.api("tables/throughput.csv"),
        )
    ]

"""The slots over time, with their idle gaps."""

from headcount.api.results.timeline import MOST_SPANS, timeline
from headcount.dashboard import text
from headcount.dashboard.figures import timeline as slots
from headcount.dashboard.panel import Figure, caption
from headcount.dashboard.tabs.view import View


def timeline_figures(view: View) -> list[Figure]:
    """What each slot worked on."""
    found = timeline(view.session, view.table.sweep)
    names = {
        row.cell: text.cell_name(row.settings, row.is_control, view.choice.constant)
        for row in view.table.rows
    }
    data = slots.timeline_data(found, names)
    marks = "One bar an attempt; a gap is a slot without a job"
    if data.begun:
        marks += f"; the first attempt began on {text.moment(data.begun)}"
    if data.all_slots > len(data.slots):
        marks += f"; showing {len(data.slots)} of {data.all_slots} slots"
    if len(found.own) == MOST_SPANS:
        marks += f"; showing the newest {MOST_SPANS:,} attempts"
    return [
        Figure(
            id="timeline",
            title="Slots over time",
            drawn=slots.timeline_figure(data),
            summary=slots.timeline_summary(data),
            caption=caption(view.table, view.choice, marks, []),
            table=slots.timeline_table(data),
            kind="tall",
        )
    ]

"""What exports read of a figure is what the page draws."""

import pytest
from sqlalchemy.orm import Session

from headcount.dashboard.exports.marks import Axis, Marks, marks_of, plain_text
from headcount.dashboard.pages.sweep import sweep_page


def marks(session: Session, figure: int = 0, **query: str) -> Marks:
    return marks_of(sweep_page(session, "head-count", query).figures[figure].drawn)


def test_lines_with_bars(session: Session) -> None:
    page = sweep_page(session, "head-count", {"y": "loss"})
    found = marks_of(page.figures[0].drawn)
    line = next(s for s in found.series if s.name == "KV 1".replace(" ", "\u00a0") and s.y_bar and not s.what)
    rows = sorted(
        (r for r in page.table.treatments if r.settings["model.kv_heads"] == 1),
        key=lambda r: r.settings["model.routing_heads"],
    )
    assert line.y == [row.mean for row in rows]
    assert line.y_bar is not None
    assert line.y_bar[1] == pytest.approx([row.se for row in rows])
    assert [found.x.label(x) for x in line.x] == ["1", "2", "4", "8", "16"]
    assert (line.lines, line.markers, line.in_legend) == (True, True, True)
    seeds = [s for s in found.series if s.what == "one seed"]
    assert [len(s.x) for s in seeds] == [15, 15, 15]


def test_a_grid_is_a_field_with_its_texts(session: Session) -> None:
    found = marks(session, figure=1)
    assert found.field is not None
    assert (len(found.field.rows), len(found.field.rows[0])) == (3, 5)
    assert found.field.low == min(value for row in found.field.rows for value in row if value is not None)
    assert [label for _, label in found.y.ticks or ()] == ["1", "2", "4"]
    assert found.y.is_reversed
    assert len(found.boxes) == 3


def test_names_along_an_axis_are_places(session: Session) -> None:
    found = marks(session, tab="paired")
    assert len(found.y.categories) == 15
    assert [found.y.place(name) for name in found.series[0].y] == [float(i) for i in range(15)]
    slots = marks(session, tab="timeline")
    assert slots.y.categories == ["node-a · slot-0"]


def test_an_inset_stands_apart(session: Session) -> None:
    found = marks(session, tab="curves", y="loss")
    assert found.inset is not None
    assert found.inset[0].low == 300
    assert len([s for s in found.series if s.in_inset]) == 6
    assert found.boxes == []


def test_tags_and_entities_are_read_as_plotly_does() -> None:
    assert plain_text("<b>a</b><br>n &lt; 3 &amp; more") == "a\nn < 3 & more"


def test_a_tick_is_found_for_a_shifted_point() -> None:
    axis = Axis("", None, None, [(0.0, "1"), (1.0, "2")], [], False, False, False, True, False)
    assert [axis.label(value) for value in (-0.04, 0.96, None)] == ["1", "2", None]

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from headcount.api.results.timeline import Span, Timeline
from headcount.dashboard.figures import timeline as figure
from headcount.dashboard.figures.timeline import Bar, SlotUse, duration, timeline_data
from headcount.dashboard.pages.sweep import sweep_page

BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def span(
    slot: str, start: float, end: float | None, cause: str | None = "finished", cell: int | None = 1
) -> Span:
    ended = None if end is None else BEGUN + timedelta(seconds=end)
    return Span(
        slot, f"n/{'37fc43a3' * 7}", "job", cell, 0, 1e12, 0, BEGUN + timedelta(seconds=start), ended, cause
    )


SPANS = (
    span("a", 0, 10),
    span("a", 14, 20, "preempted"),
    span("a", 20, 40, cell=None),
    span("a", 43, 50, "diverged"),
    span("b", 5, None, None),
)
DATA = timeline_data(Timeline(SPANS, BEGUN + timedelta(seconds=60)), {1: "H 8"})


def test_bars_and_uses_as_values() -> None:
    assert DATA.bars == [
        Bar(0, 0, 10, "finished", "H 8, seed 0: finished, 10 s"),
        Bar(0, 14, 20, "ended without a result", "H 8, seed 0: preempted, 6 s"),
        Bar(0, 20, 40, "another sweep", "a job of another sweep: finished, 20 s"),
        Bar(0, 43, 50, "diverged", "H 8, seed 0: diverged, 7 s"),
        Bar(1, 5, 60, "running", "H 8, seed 0: running, 55 s"),
    ]
    assert DATA.slots == [
        SlotUse("n/37fc43a3 · a", 3, 23, 20, 7, 4),
        SlotUse("n/37fc43a3 · b", 1, 55, 0, 0, 0),
    ]
    assert figure.timeline_table(DATA).rows[0] == [
        "n/37fc43a3 · a",
        "3",
        "23 s",
        "20 s",
        "7 s",
        "4 s",
        "46 %",
    ]


def test_the_figure_has_a_trace_for_each_look_that_there_is() -> None:
    traces = figure.timeline_figure(DATA)["data"]
    assert [trace["name"] for trace in traces] == [
        "finished",
        "diverged",
        "ended without a result",
        "running",
        "another sweep",
    ]
    assert (traces[3]["base"], traces[3]["x"], traces[3]["y"]) == ([5], [55], ["n/37fc43a3 · b"])
    assert len({trace["marker"]["color"] for trace in traces}) == 5


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.25, "0.25 s"), (59.6, "60 s"), (150, "2 min 30 s"), (12_000, "3 h 20 min")]
)
def test_durations_by_their_largest_units(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_tab_draws_every_attempt(session: Session) -> None:
    (made,) = sweep_page(session, "in-flight", {"tab": "timeline"}).figures
    assert made.summary.startswith("Slots over time: 105 attempts on 1 slot, busy for 1")
    assert "the first attempt began on 2026-03-01 12:00 UTC" in made.caption
    assert [trace["name"] for trace in made.drawn["data"]] == [
        "finished",
        "diverged",
        "ended without a result",
        "running",
        "another sweep",
    ]


def test_many_slots_are_capped_and_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure, "MOST_SLOTS", 1)
    data = timeline_data(Timeline(SPANS, BEGUN), {1: "H 8"})
    assert (len(data.slots), data.all_slots, {bar.slot for bar in data.bars}) == (1, 2, {0})


def test_attempts_within_a_pixel_are_one_bar() -> None:
    """Of 800 seconds a pixel is one: three attempts of 0.3 s each are seen as one, and counted."""
    spans = [span("a", 0.3 * i, 0.3 * i + 0.3) for i in range(4)] + [span("a", 10, 800)]
    data = timeline_data(Timeline(tuple(spans), BEGUN + timedelta(seconds=800)), {1: "H 8"})
    assert [bar.words for bar in data.bars] == [
        "3 attempts: finished",
        "H 8, seed 0: finished, 0.3 s",
        "H 8, seed 0: finished, 13 min 10 s",
    ]
    assert data.slots[0].attempts == 5


def test_before_the_first_attempt_it_says_so() -> None:
    nothing = timeline_data(Timeline((), None), {})
    assert figure.timeline_summary(nothing) == "Slots over time. No job has begun yet."
    assert figure.timeline_figure(nothing)["layout"]["annotations"][0]["text"].startswith("No result yet<br>")

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from headcount.api.results.timeline import Span
from headcount.dashboard.figures import forecast
from headcount.dashboard.figures.forecast import ForecastPoint, forecast_points
from headcount.dashboard.pages.sweep import sweep_page

BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)


def span(
    cell: int | None, seconds: float, flops: float, cause: str = "finished", start_step: int = 0
) -> Span:
    ended = BEGUN + timedelta(seconds=seconds)
    return Span("s", "n", f"job {cell} {seconds}", cell, 0, flops, start_step, BEGUN, ended, cause)


def test_a_cell_is_forecast_by_the_others() -> None:
    """Rates of cell 1: 10 and 20 a second; of cell 2: 5 a second."""
    spans = [span(1, 10, 100), span(1, 5, 100), span(2, 40, 200)]
    names = {1: "one", 2: "two", 3: "three"}
    points = [ForecastPoint("one", 20, 7.5, 2), ForecastPoint("two", pytest.approx(200 / 15), 40, 1)]
    assert forecast_points(spans, names) == points
    unfinished = [span(3, 1, 1, "preempted"), span(3, 1, 1, start_step=5), span(None, 1, 1)]
    assert forecast_points([*spans, *unfinished], names) == points
    assert forecast_points(spans[:2], names) == []
    assert forecast.forecast_table(points[:1]).rows == [["one", "20.0", "7.5", "0.38", "2"]]


def test_the_tab_of_the_plan_draws_it(session: Session) -> None:
    page = sweep_page(session, "head-count", {"tab": "plan"})
    (figure,) = page.figures
    assert len(figure.table.rows) == len(page.cells) == 18
    assert figure.summary == (
        "Actual against forecast time of a job, for 18 cells: actual times are 1.00 to 1.00 of the forecast, "
        "1.00 in the middle."
    )
    assert sweep_page(session, "waiting", {"tab": "plan"}).figures == ()

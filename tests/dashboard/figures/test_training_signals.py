from typing import Any

import pytest

from headcount.api.results import ProgressPoint
from headcount.dashboard.figures.training_signals import (
    training_signals,
    training_signals_figure,
    training_signals_summary,
    training_signals_table,
)

POINTS = [ProgressPoint(10, 3.0, 1e-3, 0.5, 1e5), ProgressPoint(20, 2.9, 5e-4, None, 2e5)]


def test_each_signal_has_its_own_axis_over_the_same_steps() -> None:
    data = training_signals(POINTS)
    assert [(s.name, s.values) for s in data.signals] == [
        ("Gradient norm", [0.5, None]),
        ("Learning rate", [1e-3, 5e-4]),
        ("Tokens a second", [1e5, 2e5]),
    ]
    drawn: dict[str, Any] = training_signals_figure(data)
    assert [(t["yaxis"], list(t["x"])) for t in drawn["data"]] == [
        ("y", [10, 20]),
        ("y2", [10, 20]),
        ("y3", [10, 20]),
    ]
    domains = [drawn["layout"][f"yaxis{n}"]["domain"] for n in ("", "2", "3")]
    assert domains[0][1] == 1
    assert domains[2][0] == 0
    assert domains[0][0] > domains[1][1] > domains[1][0] > domains[2][1]
    assert drawn["layout"]["yaxis"]["type"] == "log"
    assert drawn["layout"]["yaxis2"]["range"] == [0, 1.1e-3]


@pytest.mark.parametrize(
    ("norms", "ticks"),
    [
        ([0.5, 0.5], [0.5]),
        ([0.3, 0.7], [0.3, 0.7]),
        ([0.02, 30.0], [0.1, 1.0, 10.0]),
        ([1e-3, 1e3], [1e-3, 1.0, 1e3]),
        ([0.0], [1.0]),
    ],
)
def test_norms_have_few_ticks_within_their_range(norms: list[float], ticks: list[float]) -> None:
    points = [ProgressPoint(i, 3.0, None, norm, None) for i, norm in enumerate(norms)]
    axis = training_signals_figure(training_signals(points))["layout"]["yaxis"]
    assert axis["tickvals"] == pytest.approx(ticks)
    assert 10 ** axis["range"][0] < min(ticks)
    assert 10 ** axis["range"][1] > max(ticks)


def test_what_a_job_did_not_tell_is_left_out() -> None:
    data = training_signals([ProgressPoint(10, 3.0, None, None, 1e5)])
    assert [s.name for s in data.signals] == ["Tokens a second"]
    assert training_signals_figure(data)["layout"]["xaxis"]["anchor"] == "y"
    assert training_signals([]).signals == []
    assert training_signals_figure(training_signals([]))["layout"]["annotations"]


def test_the_table_and_the_words_have_the_numbers() -> None:
    data = training_signals(POINTS)
    assert training_signals_table(data).rows == [
        ["10", "0.5", "0.001", "1e+05"],
        ["20", "—", "0.0005", "2e+05"],
    ]
    assert training_signals_summary(data).startswith(
        "Gradient norm from 0.5 to 0.5, last 0.5; Learning rate from"
    )
    assert training_signals_summary(training_signals([])) == "No point yet."

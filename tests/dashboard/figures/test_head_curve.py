import pytest
from table_rows import control, row

from headcount.api.results import CurveLine, HeadCurve
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.bars import Bars
from headcount.dashboard.figures.head_curve import (
    HeadCurveData,
    HeadLine,
    HeadPoint,
    head_curve_data,
    head_curve_summary,
    head_curve_table,
    positions,
    vertical_range,
)
from headcount.dashboard.figures.head_curve_drawing import head_curve_figure

KV = "model.kv_heads"
LOSS = Bars("loss", "se", "± 1 SE", 0.95, 4, {})
DELTA = Bars("delta", "t", "95 % t interval", 0.95, 4, {})


def curve() -> HeadCurve:
    """H = 1 with three seeds, H = 2 with one, H = 4 diverged; H = 8 is not in the sweep."""
    three = row(2, {0: 3.40, 1: 3.44, 2: 3.48})
    one = row(3, {1: 3.30})
    diverged = row(4, {0: 3.2}, state="diverged", n=0, mean=None, se=None, delta=None, note="1 of 2 diverged")
    line = CurveLine({KV: 4}, (three, one, diverged, None), (control(), control(), control(), None))
    return HeadCurve("s", 1, "model.routing_heads", (1, 2, 4, 8), (line,))


def test_losses_as_values() -> None:
    made = curve()
    data = head_curve_data(made, made.lines, LOSS, best=3)
    assert data == HeadCurveData(
        axis="model.routing_heads",
        measure="loss",
        ticks=[0.0, 1.0, 2.0, 3.0],
        labels=["1", "2", "4", "8"],
        lines=[
            HeadLine(
                name="KV\u00a04",
                points=[
                    HeadPoint(
                        position=0.0,
                        value=1,
                        mean=pytest.approx(3.44),
                        low=pytest.approx(3.44 - 0.04 / 3**0.5),
                        high=pytest.approx(3.44 + 0.04 / 3**0.5),
                        n=3,
                        seeds=(0, 1, 2),
                        seed_values=(3.40, 3.44, 3.48),
                        best=False,
                    ),
                    HeadPoint(1.0, 2, 3.30, None, None, 1, (1,), (3.30,), True),
                ],
                control=pytest.approx(3.52),
                minimum=None,
            )
        ],
        absent=[("H\u00a04 · KV\u00a04", "1 of 2 diverged"), ("H\u00a08 · KV\u00a04", "not in this sweep")],
        bars="± 1 SE",
        published=[],
    )


def test_a_line_follows_the_axis_and_not_the_order_of_the_file() -> None:
    cells = (row(2, {0: 3.4}), row(3, {0: 3.5}), row(4, {0: 3.3}))
    line = CurveLine({"model.routing_heads": 4}, cells, (control(),) * 3)
    made = HeadCurve("s", 1, "train.peak_lr", (1e-3, 5e-4, 2e-3), (line,))
    data = head_curve_data(made, made.lines, LOSS, best=None)
    assert [(p.value, p.mean) for p in data.lines[0].points] == [(5e-4, 3.5), (1e-3, 3.4), (2e-3, 3.3)]
    assert "3.5000 at 5e-4, lowest 3.3000 at 2e-3, 3.3000 at 2e-3" in head_curve_summary(data)


def test_deltas_as_values() -> None:
    made = curve()
    three, one = head_curve_data(made, made.lines, DELTA, best=None).lines[0].points
    # deltas −0.10, −0.08, −0.06: sd 0.02, half width 4.302653 · 0.02 / √3
    assert three.mean == pytest.approx(-0.08)
    assert three.low == pytest.approx(-0.08 - 0.0496828, abs=1e-6)
    assert three.high == pytest.approx(-0.08 + 0.0496828, abs=1e-6)
    assert three.seed_values == pytest.approx((-0.10, -0.08, -0.06))
    assert (one.low, one.high, one.seeds) == (None, None, (1,))
    assert head_curve_data(made, made.lines, DELTA, None).lines[0].control is None


def test_a_fixed_axis_is_left_out_of_names() -> None:
    made = curve()
    assert head_curve_data(made, made.lines, LOSS, None, [KV]).lines[0].name == "all cells"


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ((1, 2, 8), [0.0, 1.0, 3.0]),
        ((0.5, 1), [-1.0, 0.0]),
        ((0, 1), [0.0, 1.0]),
        (("mhar", "additive"), [0.0, 1.0]),
        ((True, False), [0.0, 1.0]),
    ],
)
def test_positions_are_powers_of_two_where_they_can_be(
    values: tuple[object, ...], where: list[float]
) -> None:
    assert positions(values) == where


def test_the_figure_draws_the_data() -> None:
    made = curve()
    data = head_curve_data(made, made.lines, LOSS, best=3)
    drawn = head_curve_figure(data)
    seeds, dotted, line, best, control = drawn["data"]
    assert line["name"] == "KV\u00a04"
    assert line["y"] == [p.mean for p in data.lines[0].points]
    assert line["error_y"]["array"] == [pytest.approx(0.04 / 3**0.5), 0]
    assert seeds["y"] == [3.40, 3.44, 3.48, 3.30]
    assert dotted["y"] == [pytest.approx(3.52)] * 2
    assert best["y"] == [3.30]
    assert drawn["layout"]["xaxis"]["ticktext"] == ["1", "2", "4", "8"]
    assert [t.get("showlegend", True) for t in drawn["data"]] == [False, False, True, False, True]
    assert (control["name"], control["x"]) == ("control", [None])


def test_the_figure_of_deltas_has_the_control_at_zero() -> None:
    made = curve()
    drawn = head_curve_figure(head_curve_data(made, made.lines, DELTA, None))
    assert drawn["layout"]["yaxis"]["zeroline"] is True
    assert drawn["layout"]["yaxis"]["title"]["text"] == "Delta to control, nats"


def test_long_bars_run_out_of_the_figure_rather_than_flatten_it() -> None:
    """Two deltas, −0.10 and −0.08, have a 95 % interval of ±12.7062 · 0.01 around −0.09."""
    line = CurveLine({}, (row(2, {0: 3.40, 1: 3.44}), row(3, {0: 3.42, 1: 3.44})), (control(), control()))
    made = HeadCurve("s", 1, "model.routing_heads", (1, 2), (line,))
    data = head_curve_data(made, made.lines, DELTA, None)
    assert data.lines[0].points[0].low == pytest.approx(-0.09 - 0.127062)
    assert vertical_range(data) == pytest.approx((-0.2, 0.037062), abs=1e-6)
    assert list(head_curve_figure(data)["layout"]["yaxis"]["range"]) == pytest.approx(
        [-0.2, 0.037062], abs=1e-6
    )


def test_bars_that_fit_leave_the_range_to_the_figure() -> None:
    made = curve()
    data = head_curve_data(made, made.lines, LOSS, None)
    assert vertical_range(data) is None
    assert "range" not in head_curve_figure(data)["layout"]["yaxis"]


def test_lines_are_told_apart_by_colour_and_marker() -> None:
    lines = tuple(CurveLine({KV: kv}, (row(kv, {0: 3.4}),), (control(),)) for kv in (1, 2, 4, 8))
    made = HeadCurve("s", 1, "model.routing_heads", (1,), lines)
    drawn = [
        t for t in head_curve_figure(head_curve_data(made, lines, DELTA, None))["data"] if "error_y" in t
    ]
    assert [t["marker"]["color"] for t in drawn] == list(theme.SERIES[:4])
    assert [t["marker"]["symbol"] for t in drawn] == list(theme.SYMBOLS[:4])
    assert len({t["x"][0] for t in drawn}) == 4


def test_text_from_users_is_not_read_as_tags() -> None:
    line = CurveLine({"data.source": "<a href='x'>"}, (row(2, {0: 3.4}),), (control(),))
    made = HeadCurve("s", 1, "model.residual", ("<b>m</b>",), (line,))
    drawn = head_curve_figure(head_curve_data(made, made.lines, LOSS, None))
    assert drawn["layout"]["xaxis"]["ticktext"] == ["&lt;b&gt;m&lt;/b&gt;"]
    for trace in drawn["data"][:-1]:
        assert trace["name"] == "source\u00a0&lt;a href='x'&gt;"
        assert "<a" not in str(trace["hovertext"])


def test_the_table_and_the_summary_say_the_same() -> None:
    made = curve()
    data = head_curve_data(made, made.lines, DELTA, None)
    table = head_curve_table(data)
    assert table.columns == ["Line", "Routing heads H", "Delta", "Bar from", "Bar to", "n"]
    assert table.rows == [
        ["KV\u00a04", "1", "−0.0800", "−0.1297", "−0.0303", "3"],
        ["KV\u00a04", "2", "−0.2200", "—", "—", "1"],
    ]
    assert table.caption == "Delta by Routing heads H; bars: 95 % t interval."
    assert head_curve_summary(data) == (
        "Delta to control against Routing heads H. "
        "KV\u00a04: −0.0800 at 1, lowest −0.2200 at 2, −0.2200 at 2."
    )


def test_a_line_without_a_result_is_said() -> None:
    empty = CurveLine({KV: 1}, (row(2, {}, state="missing", delta=None),), (control(),))
    made = HeadCurve("s", 1, "model.routing_heads", (1,), (empty,))
    data = head_curve_data(made, made.lines, LOSS, None)
    assert data.absent == [("H\u00a01 · KV\u00a01", "missing")]
    assert "KV\u00a01: no result yet" in head_curve_summary(data)
    assert head_curve_table(data).rows == []
    assert [a["text"] for a in head_curve_figure(data)["layout"]["annotations"]] == [
        "No result yet<br>A point stands here once a job of its cell has<br>finished."
    ]

import pytest
from table_rows import row

from headcount.api.results import Grid, GridPanel
from headcount.dashboard.figures import theme
from headcount.dashboard.figures.grid import (
    GridCell,
    GridData,
    grid_data,
    grid_summary,
    grid_table,
)
from headcount.dashboard.figures.grid_drawing import grid_figure

H, KV = "model.routing_heads", "model.kv_heads"


def grid() -> tuple[Grid, GridPanel]:
    """KV 1 and 2 down, H 1, 2 and 4 across, a cell for each way to be."""
    done = row(2, {0: 3.40, 1: 3.42, 2: 3.44})
    partial = row(3, {0: 3.30}, state="running", seeds_missing=(1, 2))
    diverged = row(
        4, {0: 3.2}, state="diverged", n=0, mean=None, delta=None, seeds_diverged=(1,), note="1 of 2 diverged"
    )
    missing = row(5, {}, state="missing", delta=None, seeds_missing=(0, 1, 2))
    failed = row(6, {}, state="failed", delta=None, seeds_failed=(0, 1, 2), note="3 of 3 failed")
    panel = GridPanel({}, ((done, partial, diverged), (missing, failed, None)), best=2)
    return Grid("s", 1, KV, H, (1, 2), (1, 2, 4), (panel,)), panel


def test_cells_as_values() -> None:
    data = grid_data(*grid(), "loss")
    assert (data.rows, data.columns) == (["1", "2"], ["1", "2", "4"])
    assert [(c.row, c.column, c.state, c.value, c.n, c.planned) for c in data.cells] == [
        (0, 0, "done", 3.42, 3, 3),
        (0, 1, "running", 3.30, 1, 3),
        (0, 2, "diverged", None, 0, 2),
        (1, 0, "missing", None, 0, 3),
        (1, 1, "failed", None, 0, 3),
    ]
    assert [c.best for c in data.cells] == [True, False, False, False, False]
    assert [c.diagonal for c in data.cells] == [True, False, False, False, True]
    assert data.cells[2].name == "H\u00a04 · KV\u00a01"


def test_rows_and_columns_ascend_whatever_the_order_of_the_file() -> None:
    sorted_data = grid_data(*grid(), "loss")
    _, panel = grid()
    mixed = GridPanel({}, tuple((line[2], line[0], line[1]) for line in reversed(panel.cells)), best=2)
    made = Grid("s", 1, KV, H, (2, 1), (4, 1, 2), (mixed,))
    assert grid_data(made, mixed, "loss") == sorted_data
    words = Grid("s", 1, "model.residual", H, ("wav", "mhar"), (1, 2, 4), (panel,))
    assert grid_data(words, panel, "loss").rows == ["wav", "mhar"]


def test_deltas_of_the_same_cells() -> None:
    cells = grid_data(*grid(), "delta").cells
    assert [None if c.value is None else round(c.value, 10) for c in cells] == [-0.1, -0.2, None, None, None]
    assert [c.n for c in cells] == [3, 1, 0, 0, 0]


def test_the_diagonal_is_of_heads_and_kv_heads_alone() -> None:
    _, panel = grid()
    other = Grid("s", 1, "train.peak_lr", H, (1, 2), (1, 2, 4), (panel,))
    assert not any(c.diagonal for c in grid_data(other, panel, "loss").cells)


def test_the_figure_draws_the_values_and_marks_the_best() -> None:
    heat, values, *states, _, _ = grid_figure(grid_data(*grid(), "loss"))["data"]
    assert heat["z"] == [[3.42, 3.30, None], [None, None, None]]
    assert values["text"] == [
        "<b>3.4200</b><br><span style='font-size:0.82em'><b>★</b> n = 3</span>",
        "3.3000<br><span style='font-size:0.82em'>○ n = 1 of 3</span>",
        "<span style='font-size:0.82em'>1 of 2</span>",
        "<span style='font-size:0.82em'>0 of 3</span>",
        "<span style='font-size:0.82em'>3 of 3</span>",
    ]
    assert values["textfont"]["color"][2:] == [theme.DIVERGED, theme.MUTED, theme.FAILED]
    assert [(t["name"], t["x"], [round(y) for y in t["y"]]) for t in states] == [
        ("diverged", [2], [0]),
        ("failed", [1], [1]),
        ("missing", [0], [1]),
    ]


def test_each_way_to_have_no_value_has_its_own_look() -> None:
    states = grid_figure(grid_data(*grid(), "loss"))["data"][2:-2]
    looks = [(t["marker"]["symbol"], t["marker"]["color"]) for t in states]
    assert len(set(looks)) == len(looks) == 3


def test_borders_dashed_where_h_is_kv_and_dotted_without_a_value() -> None:
    *shapes, one_seed = grid_figure(grid_data(*grid(), "loss"))["layout"]["shapes"]
    assert (one_seed["x0"], one_seed["line"]["dash"]) == (pytest.approx(0.6), "dot")
    assert [(round(s["x0"] + 0.46), round(s["y0"] + 0.46), s["line"]["dash"]) for s in shapes] == [
        (0, 0, "dash"),
        (2, 0, "dot"),
        (0, 1, "dot"),
        (1, 1, "dash"),
    ]
    assert shapes[0]["line"]["color"] in ("#000000", "#ffffff")
    assert shapes[3]["line"]["color"] == theme.INK


def test_a_grid_without_any_value_draws() -> None:
    cell = GridCell(0, 0, "H 1", "missing", None, 0, 3, False, False, "")
    drawn = grid_figure(GridData(KV, H, ["1"], ["1"], "loss", [cell]))
    assert drawn["data"][0]["showscale"] is False
    assert grid_summary(GridData(KV, H, ["1"], ["1"], "loss", [cell])) == (
        "Grid of KV heads by Routing heads H: 1 cell (1 missing)."
    )


def test_names_from_users_are_not_read_as_tags() -> None:
    _, panel = grid()
    hostile = Grid("s", 1, "data.source", H, ("<b>x</b>", "y"), (1, 2, 4), (panel,))
    drawn = grid_figure(grid_data(hostile, panel, "loss"))
    assert drawn["layout"]["yaxis"]["ticktext"] == ["&lt;b&gt;x&lt;/b&gt;", "y"]
    assert "<b>x" not in str(drawn["data"][0]["hovertext"])


def test_the_table_and_the_summary_say_the_same() -> None:
    data = grid_data(*grid(), "loss")
    table = grid_table(data)
    assert table.columns == ["KV \\ H", "1", "2", "4"]
    assert table.rows == [
        ["1", "★ 3.4200 (n 3)", "3.3000 (n 1)", "1 of 2 diverged"],
        ["2", "missing", "3 of 3 failed", "—"],
    ]
    assert grid_summary(data) == (
        "Grid of KV heads by Routing heads H: 5 cells (1 done, 1 running, 1 diverged, 1 missing, 1 failed)."
        " Lowest mean loss at H\u00a01 · KV\u00a01: 3.4200."
    )

"""Curves and grids hold the rows of the table, each in its place."""

import pytest
from builders import build_sweep
from sqlalchemy.orm import Session

from headcount.api.results import QueryError, ablation_table, grid, head_curve


def test_one_line_a_setting_of_the_other_axes(session: Session) -> None:
    build_sweep(
        session,
        heads=(1, 4, 8),
        kv_heads=(2, 1),
        rates=(1e-3, 3e-4),
        missing=[(4, 1, 3e-4, s) for s in range(3)],
    )
    table = ablation_table(session, "head-count")
    curve = head_curve(table)
    assert (curve.axis, curve.values) == ("model.routing_heads", (1, 4, 8))
    # in the file's order of the axes
    assert [tuple(line.settings.values()) for line in curve.lines] == [
        (2, 1e-3),
        (2, 3e-4),
        (1, 1e-3),
        (1, 3e-4),
    ]
    for line in curve.lines:
        for heads, point, control in zip(curve.values, line.points, line.controls, strict=True):
            assert point is not None
            assert point.settings == {"model.routing_heads": heads, **line.settings}
            assert control is table.row(point.control or 0)
        assert len({id(c) for c in line.controls}) == 1
    empty = curve.lines[3].points[1]
    assert empty is not None
    assert (empty.state, empty.n, empty.seeds_missing) == ("missing", 0, (0, 1, 2))


def test_a_curve_over_another_axis_has_a_control_a_point(session: Session) -> None:
    build_sweep(session, heads=(1, 8), kv_heads=(1,), rates=(1e-3, 3e-4))
    curve = head_curve(ablation_table(session, "head-count"), "train.peak_lr")
    assert curve.values == (1e-3, 3e-4)
    assert len(curve.lines) == 2
    controls = [c.settings["train.peak_lr"] for c in curve.lines[0].controls if c]
    assert controls == [1e-3, 3e-4]


def test_a_grid_has_a_panel_a_setting_of_the_other_axes(session: Session) -> None:
    build_sweep(session, heads=(1, 4, 8), kv_heads=(1, 2), rates=(1e-3, 3e-4))
    table = ablation_table(session, "head-count")
    squares = grid(table)
    assert (squares.row_axis, squares.column_axis) == ("model.kv_heads", "model.routing_heads")
    assert [p.settings for p in squares.panels] == [{"train.peak_lr": 1e-3}, {"train.peak_lr": 3e-4}]
    for panel in squares.panels:
        means = []
        for kv, cells in zip(squares.row_values, panel.cells, strict=True):
            for heads, row in zip(squares.column_values, cells, strict=True):
                assert row is not None
                assert row.settings["model.kv_heads"] == kv
                assert row.settings["model.routing_heads"] == heads
                means.append((row.mean, row.cell))
        assert panel.best == min(means)[1]


def test_the_best_cell_is_among_those_with_the_most_seeds(session: Session) -> None:
    build_sweep(session, heads=(1, 4, 8), kv_heads=(1, 2), states={(8, 2, 1e-3, 0): "running"})
    table = ablation_table(session, "head-count")
    best = table.row(grid(table).panels[0].best or 0)
    assert best.n == 3
    assert best.settings["model.routing_heads"] == 4 or best.settings["model.kv_heads"] == 1


def test_an_axis_that_is_not_varied_is_refused(session: Session) -> None:
    build_sweep(session)
    table = ablation_table(session, "head-count")
    with pytest.raises(QueryError, match=r"no axis 'model.kv_head'; did you mean 'model.kv_heads'"):
        head_curve(table, "model.kv_head")
    with pytest.raises(QueryError, match=r"two different axes, but both are model\.kv_heads"):
        grid(table, "model.kv_heads", "model.kv_heads")
    turned = grid(table, "model.routing_heads")
    assert (turned.row_axis, turned.column_axis) == ("model.routing_heads", "model.kv_heads")

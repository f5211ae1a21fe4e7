"""Results of sweeps as the plan makes them: the stream as an axis, no controls, no axes."""

from pathlib import Path

import pytest
from sqlalchemy import text

from headcount.api.results import (
    AblationTable,
    QueryError,
    ablation_table,
    grid,
    head_curve,
    paired_statistics,
)
from headcount.orchestrator.store import Store, submit
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.plan import plan
from headcount.trainer.data import prepare


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def finished(store: Store, home: Path, spec: str) -> AblationTable:
    """The table of a sweep whose every job has finished, at a loss that only its seed decides."""
    planned = plan(parse_spec(f"name: odd\n{spec}", "odd.yaml"), lambda config: prepare(config, home))
    with store.write() as session:
        submit(session, planned, "tester")
        session.execute(text("UPDATE job SET state = 'finished', tail_mean = 3.0 + 0.1 * seed"))
    with store.read() as session:
        return ablation_table(session, "odd")


def test_where_the_stream_is_an_axis_the_additive_cell_is_the_control(store: Store, home: Path) -> None:
    spec = "axes: {model.residual: [additive, mhar], model.routing_heads: [1, 4]}\nseeds: [0, 1]"
    table = finished(store, home, spec)
    control, first, second = table.rows
    assert (control.settings, control.is_control, control.delta) == (
        {"model.residual": "additive"},
        True,
        None,
    )
    assert first.settings == {"model.residual": "mhar", "model.routing_heads": 1}
    assert (first.control, second.control) == (control.cell, control.cell)
    assert paired_statistics(table).family.size == 2
    (line,) = head_curve(table).lines
    assert (line.settings, line.points) == ({"model.residual": "mhar"}, (first, second))
    (panel,) = grid(table, "model.residual", "model.routing_heads").panels
    assert panel.cells == ((None, None), (first, second))


def test_without_controls_there_are_losses_and_no_deltas(store: Store, home: Path) -> None:
    spec = "job: {model: {residual: mhar}}\naxes: {model.routing_heads: [1, 4]}\nseeds: [0, 1]\ncontrol: none"
    table = finished(store, home, spec)
    assert [(r.mean, r.delta, r.control) for r in table.rows] == [(3.05, None, None)] * 2
    found = paired_statistics(table)
    assert (found.family.size, found.comparisons, found.shapes) == (0, (), ())
    with pytest.raises(QueryError, match="'odd' varies 1 axis; a grid needs two"):
        grid(table)


def test_a_sweep_without_axes_has_a_table_and_no_curve(store: Store, home: Path) -> None:
    table = finished(store, home, "job: {model: {residual: mhar}}\nseeds: [0, 1, 2]")
    assert [(r.settings, r.is_control) for r in table.rows] == [({}, False), ({}, True)]
    assert table.rows[0].delta is not None
    assert (table.rows[0].delta.mean, table.rows[0].delta.p) == (0.0, None)
    with pytest.raises(QueryError, match="'odd' varies no axis"):
        head_curve(table)

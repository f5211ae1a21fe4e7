"""The printed table: whole numbers at any width."""

import io
from dataclasses import replace

import pytest
from builders import build_sweep
from rich.console import Console

from headcount.api.columns import readable
from headcount.api.results import AblationTable, ablation_table
from headcount.api.terminal import print_table
from headcount.orchestrator.store import open_store


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> AblationTable:
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('store') / 'headcount.db'}")
    states = {(8, 2, 1e-3, 1): "diverged", (4, 1, 1e-3, 0): "queued"}
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), states=states, curves=False)
    with store.read() as session:
        table = ablation_table(session, "head-count")
    store.close()
    return table


def printed(table: AblationTable, width: int) -> list[str]:
    out = io.StringIO()
    print_table(table, console=Console(file=out, width=width, force_terminal=True, color_system=None))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_number_is_cut_short(table: AblationTable, width: int) -> None:
    lines = [" ".join(line.split()) for line in printed(table, width)]
    for row in readable(table).rows:
        assert " ".join(" ".join(row[:-1]).split()) in lines
    assert "routing heads 8, kv heads 2, peak lr 0.001: 1 of 3 diverged" in lines
    assert "routing heads 4, kv heads 1, peak lr 0.001: seeds missing: 0" in lines
    assert " ".join(lines).endswith(readable(table).caption)


def test_two_axes_fit_a_terminal_of_80(table: AblationTable) -> None:
    axes = {axis: values for axis, values in table.axes.items() if axis != "train.peak_lr"}
    lines = printed(replace(table, axes=axes), 80)
    assert max(len(line.rstrip()) for line in lines) <= 80


def test_a_remark_on_many_cells_is_one_line(table: AblationTable) -> None:
    young = replace(table, rows=tuple(replace(row, note="not run") for row in table.rows[:5]))
    assert [line for line in printed(young, 100) if "not run" in line] == ["5 cells: not run"]
    few = replace(young, rows=young.rows[1:3])
    assert [line for line in printed(few, 100) if "not run" in line] == [
        "control, kv heads 2, peak lr 0.001: not run",
        "routing heads 1, kv heads 1, peak lr 0.001: not run",
    ]

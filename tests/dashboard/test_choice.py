from dataclasses import replace

import pytest
from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, QueryError, ablation_table, head_curve
from headcount.dashboard.choice import Choice, choose, shown_lines

LR = "train.peak_lr"
REST = "lines=model.kv_heads&bars=t&reference=none"


@pytest.fixture
def table(session: Session) -> AblationTable:
    """H by KV at two learning rates."""
    return ablation_table(session, "in-flight")


def chosen(table: AblationTable, **query: str) -> Choice:
    return choose(table, head_curve(table), query)


def test_the_default_is_the_delta_at_the_learning_rate_of_the_best_cell(table: AblationTable) -> None:
    choice = chosen(table)
    assert choice.query() == f"y=delta&train.peak_lr=5e-4&{REST}"
    assert [(f.axis, f.values, f.chosen) for f in choice.filters] == [(LR, ("5e-4", "1e-3"), "5e-4")]
    assert choice.fixed == (LR,)
    assert choice.lines == "model.kv_heads"


def test_a_complete_query_is_its_own_completion(table: AblationTable) -> None:
    choice = chosen(table, y="loss", **{LR: "5e-4"})
    rest = "lines=model.kv_heads&bars=se&reference=none"
    assert choice.query() == f"y=loss&train.peak_lr=5e-4&{rest}"
    assert choice.query(y="delta") == f"y=delta&train.peak_lr=5e-4&{rest}"


def test_the_lines_are_those_of_the_chosen_value(table: AblationTable) -> None:
    curve = head_curve(table)
    lines = shown_lines(curve, chosen(table, **{LR: "5e-4"}))
    assert [line.settings for line in lines] == [{"model.kv_heads": kv, LR: 5e-4} for kv in (1, 2, 4)]


def test_an_axis_of_one_value_is_said_once(session: Session) -> None:
    table = ablation_table(session, "head-count")
    choice = chosen(table)
    assert (choice.filters, choice.constant) == ((), (LR,))
    assert choice.query() == "y=delta&bars=t&reference=none"


def test_without_kv_heads_the_first_axis_left_makes_the_lines(table: AblationTable) -> None:
    """An axis of one value never does, wherever it stands in the file."""
    axes = {"data.source": ("x",), **{a: v for a, v in table.axes.items() if a != "model.kv_heads"}}
    rows = tuple(
        replace(r, settings=r.settings | {"data.source": "x"})
        for r in table.rows
        if r.settings["model.kv_heads"] == 4
    )
    choice = chosen(replace(table, axes=axes, rows=rows))
    assert (choice.lines, choice.filters, choice.constant) == (LR, (), ("data.source",))


def test_without_controls_the_loss_is_shown(table: AblationTable) -> None:
    alone = replace(table, rows=tuple(replace(r, control=None, delta=None) for r in table.treatments))
    assert chosen(alone).measure == "loss"


def test_another_axis_for_the_lines_sets_the_first_free(table: AblationTable) -> None:
    """The form still sends the learning rate that was chosen: it now makes the lines."""
    choice = chosen(table, lines=LR, **{LR: "1e-3"})
    assert choice.lines == LR
    assert [(f.axis, f.chosen) for f in choice.filters] == [("model.kv_heads", "4")]


def test_a_grid_takes_any_two_axes(table: AblationTable) -> None:
    choice = chosen(table, tab="grid")
    assert choice.query() == (
        "tab=grid&y=delta&train.peak_lr=5e-4&rows=model.kv_heads&columns=model.routing_heads"
    )
    choice = chosen(table, tab="grid", rows=LR, columns="model.kv_heads")
    assert [(f.axis, f.chosen) for f in choice.filters] == [("model.routing_heads", "8")]
    same = chosen(table, tab="grid", rows=LR, columns=LR)
    assert (same.option("rows"), same.option("columns")) == ("model.routing_heads", LR)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"y": "los"}, "y is 'los'; did you mean 'loss'?"),
        ({LR: "1e-4"}, "train.peak_lr has no value '1e-4'; did you mean '5e-4'?"),
        ({"train.peak_l": "1e-3"}, "this page knows no 'train.peak_l'; did you mean 'train.peak_lr'?"),
        ({"bars": "simultanous"}, "bars is 'simultanous'; did you mean 'simultaneous'?"),
        ({"tab": "grid", "rows": "model.kv"}, "rows is 'model.kv'; did you mean 'model.kv_heads'?"),
    ],
)
def test_what_the_page_does_not_know_is_an_error(
    table: AblationTable, query: dict[str, str], problem: str
) -> None:
    with pytest.raises(QueryError) as raised:
        choose(table, head_curve(table), query)
    assert str(raised.value) == problem

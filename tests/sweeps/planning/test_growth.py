"""Plans of sweeps that add to themselves: what the store tells of them, and what may still come."""

import io
import json
from typing import Any

import pytest
from plans import make_plan
from rich.console import Console

from headcount.sweeps.file.spec import SpecError
from headcount.sweeps.forecasting.forecast import forecast
from headcount.sweeps.forecasting.speed import History
from headcount.sweeps.planning.growth import Growth, cell_key
from headcount.sweeps.planning.plan import Plan
from headcount.sweeps.rendering import plan_as_dict, render_plan

BASE = """
name: tiny
job:
  model: {scale: nano, residual: mhar}
  train: {steps: 40, eval_every: 5}
axes:
  model.routing_heads: [1, 2]
"""
RATES = "  train.peak_lr: [1e-4, 1e-3, 1e-2]\n"
SEARCH = (
    BASE
    + "  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}\nseeds: [0, 1]\n"
    + "search: {method: tpe, trials: 10, fresh_seeds: 3}\n"
)
POINT = {"model.routing_heads": 2, "train.peak_lr": 2e-3}


def printed(plan: Plan) -> str:
    screen = io.StringIO()
    render_plan(plan, Console(width=200, file=screen), History("cpu", 2))
    return screen.getvalue()


@pytest.mark.parametrize(
    ("text", "now", "more"),
    [
        # ten cells and their controls at two seeds, the best cell and its control at three
        (SEARCH, 0, 10 * 2 * 2 + 2 * 3),
        (SEARCH + "control: none\n", 0, 10 * 2 + 3),
        # without a rate to share, one control serves all
        (BASE + "search: {method: random, trials: 5, fresh_seeds: 0}\n", 0, 5 + 1),
        # three rates become up to nine, for two methods and their control
        (BASE + RATES + "seeds: [0, 1]\nrefine: train.peak_lr\n", 18, 3 * 6 * 2),
        # two cells and their control, from three to seven seeds
        (BASE + "seeds: {start: 3, max: 7, half_width: 0.01}\n", 9, 3 * 4),
        (BASE, 3, 0),
    ],
)
def test_a_plan_says_how_many_jobs_may_come(text: str, now: int, more: int) -> None:
    plan = make_plan(text)
    assert len(plan.jobs) == now
    assert (plan.to_come.jobs if plan.to_come else 0) == more
    time = forecast(plan, History("cpu", 2)).time
    assert time is not None
    assert time.jobs == now + more
    shown = plan_as_dict(plan)["to_come"]
    assert (shown["jobs"] if shown else 0) == more
    json.dumps(plan_as_dict(plan))
    assert (f"At most {more} jobs more" in printed(plan)) == bool(more)


def test_what_is_there_is_not_to_come_and_nothing_is_when_the_sweep_is_over() -> None:
    one = make_plan(SEARCH, Growth(points=(POINT,)))
    assert [(dict(cell.settings), cell.is_control) for cell in one.cells] == [
        (POINT, False),
        ({"train.peak_lr": 2e-3}, True),
    ]
    assert len(one.jobs) == 4
    assert one.to_come is not None
    assert one.to_come.jobs == 46 - 4
    assert make_plan(SEARCH, Growth(points=(POINT,), is_over=True)).to_come is None
    assert one.axes == {"model.routing_heads": (1, 2), "train.peak_lr": (2e-3,)}


def test_added_seeds_and_pruned_cells_are_told_by_the_cell() -> None:
    seeds = {cell_key(False, POINT): (2,), cell_key(True, {"train.peak_lr": 2e-3}): (2,)}
    other = {**POINT, "train.peak_lr": 5e-3}
    growth = Growth(points=(POINT, other), seeds=seeds, pruned=frozenset({cell_key(False, other)}))
    found: dict[tuple[float, bool], list[Any]] = {}
    plan = make_plan(SEARCH, growth)
    for job in plan.jobs:
        cell = plan.cells[job.cell]
        key = cell.settings["train.peak_lr"], cell.is_control
        found.setdefault(key, []).append((job.config.seed, job.is_wanted))
    # with a pruned cell goes its control, which no other needs
    assert found == {
        (2e-3, False): [(0, True), (1, True), (2, True)],
        (2e-3, True): [(0, True), (1, True), (2, True)],
        (5e-3, False): [(0, False), (1, False)],
        (5e-3, True): [(0, False), (1, False)],
    }
    by_seed = {(job.cell, job.config.seed): job.id for job in plan.jobs}
    for job in plan.jobs:
        control = plan.cells[job.cell].control
        assert job.control_id == (None if control is None else by_seed[control, job.config.seed])


def test_a_point_finds_its_cell_by_what_its_stream_reads() -> None:
    plan = make_plan(SEARCH, Growth(points=(POINT,)))
    cell = plan.cell_of(POINT)
    assert cell is not None
    assert (cell.position, cell.is_control) == (0, False)
    assert plan.cell_of({**POINT, "train.peak_lr": 3e-3}) is None


def test_a_delta_of_many_controls_is_refused() -> None:
    with pytest.raises(SpecError, match=r"search\.objective: a delta ranks trials only where all have the"):
        make_plan(SEARCH.replace("trials: 10", "trials: 10, objective: delta"))


def test_a_search_is_checked_at_the_ends_of_its_ranges() -> None:
    whole = SEARCH.replace("[1, 2]", "{low: 1, high: 3}")
    with pytest.raises(SpecError, match=r"3 does not divide model\.d_model"):
        make_plan(whole)
    assert make_plan(whole + 'skip: ["model.d_model % model.routing_heads != 0"]\n').jobs == ()


def test_a_search_that_ended_before_its_first_trial_has_a_plan_of_nothing() -> None:
    plan = make_plan(SEARCH, Growth(is_over=True))
    assert (plan.cells, plan.jobs, plan.to_come) == ((), (), None)
    assert forecast(plan, History("cpu", 2)).time is None
    assert "to train" not in printed(plan)

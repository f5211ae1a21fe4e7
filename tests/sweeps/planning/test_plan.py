"""From a sweep file to cells, controls and jobs."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import planned

from headcount.sweeps.file.spec import SpecError
from headcount.sweeps.planning.identity import canonical, job_id
from headcount.sweeps.planning.plan import Plan

GRID = """
name: grid
job: {model: {residual: mhar}}
axes:
  model.routing_heads: [1, 2]
  model.kv_heads: [2, 4]
seeds: [0, 1]
"""


def shown(result: Plan) -> list[tuple[dict[str, object], bool, int | None]]:
    return [(dict(cell.settings), cell.is_control, cell.control) for cell in result.cells]


def test_the_grid_stands_in_the_order_of_the_axes_and_the_controls_are_added() -> None:
    assert shown(planned(GRID)) == [
        ({"model.routing_heads": 1, "model.kv_heads": 2}, False, 4),
        ({"model.routing_heads": 1, "model.kv_heads": 4}, False, 5),
        ({"model.routing_heads": 2, "model.kv_heads": 2}, False, 4),
        ({"model.routing_heads": 2, "model.kv_heads": 4}, False, 5),
        ({"model.kv_heads": 2}, True, None),
        ({"model.kv_heads": 4}, True, None),
    ]


def test_every_job_is_paired_with_the_control_at_its_seed() -> None:
    result = planned(GRID)
    by_id = {job.id: job for job in result.jobs}
    assert len(by_id) == len(result.jobs) == 12
    for job in result.jobs:
        assert job.id == job_id(job.config, job.fingerprint)
        if result.cells[job.cell].is_control:
            assert job.control_id is None
            continue
        control = by_id[job.control_id or ""]
        assert control.config.model.residual == "additive"
        assert control.config.seed == job.config.seed
        assert control.config.model.kv_heads == job.config.model.kv_heads
        assert (control.config.train, control.config.data) == (job.config.train, job.config.data)
        assert result.cells[control.cell].is_control
        assert control.cell == result.cells[job.cell].control


def dispatch(text: str) -> list[tuple[int, int]]:
    jobs = planned(text).jobs
    assert [job.position for job in jobs] == list(range(len(jobs)))
    return [(job.cell, job.config.seed) for job in jobs]


def test_by_seed_trains_a_full_map_at_one_seed_first_controls_ahead_of_their_treatments() -> None:
    one_map = [4, 0, 5, 1, 2, 3]
    assert dispatch(GRID) == [(cell, seed) for seed in (0, 1) for cell in one_map]


def test_axis_trains_all_seeds_of_a_cell_before_the_next() -> None:
    expected = [(cell, seed) for cell in [4, 0, 5, 1, 2, 3] for seed in (0, 1)]
    assert dispatch(GRID + "order: axis") == expected


def test_shuffled_is_the_order_of_the_ids() -> None:
    jobs = planned(GRID + "order: shuffled").jobs
    assert [job.id for job in jobs] == sorted(job.id for job in jobs)
    assert {job.id for job in jobs} == {job.id for job in planned(GRID).jobs}


def test_control_none_leaves_controls_out() -> None:
    result = planned(GRID + "control: none")
    assert [(cell.is_control, cell.control) for cell in result.cells] == [(False, None)] * 4
    assert {job.control_id for job in result.jobs} == {None}


def test_where_the_residual_is_an_axis_the_additive_cell_is_the_control() -> None:
    text = """
    name: streams
    axes:
      model.residual: [additive, mhar]
      model.routing_heads: [1, 2]
    """
    assert shown(planned(text)) == [
        ({"model.residual": "additive"}, True, None),
        ({"model.residual": "mhar", "model.routing_heads": 1}, False, 0),
        ({"model.residual": "mhar", "model.routing_heads": 2}, False, 0),
    ]


def test_a_control_may_be_another_setting_of_the_axes() -> None:
    text = "name: heads\njob: {model: {residual: mhar}}\naxes: {model.routing_heads: [1, 2, 4]}\n"
    assert shown(planned(text + "control: {model.routing_heads: 1}")) == [
        ({"model.routing_heads": 1}, True, None),
        ({"model.routing_heads": 2}, False, 0),
        ({"model.routing_heads": 4}, False, 0),
    ]
    assert shown(planned(text + "control: {model.routing_heads: 8}"))[-1] == (
        {"model.routing_heads": 8},
        True,
        None,
    )


def test_a_skipped_cell_that_is_a_control_comes_back_as_one() -> None:
    text = "name: s\naxes: {model.residual: [additive, mhar]}\nskip: [\"model.residual == 'additive'\"]"
    assert shown(planned(text)) == [
        ({"model.residual": "mhar"}, False, 1),
        ({"model.residual": "additive"}, True, None),
    ]


def test_a_sweep_without_axes_is_one_cell_and_its_control() -> None:
    assert shown(planned("name: one\njob: {model: {residual: mhar}}")) == [({}, False, 1), ({}, True, None)]


def test_a_skipped_cell_may_break_a_rule() -> None:
    result = planned(
        "name: s\njob: {model: {residual: mhar}}\naxes: {model.routing_heads: [1, 3, 4]}\n"
        'skip: ["model.d_model % model.routing_heads != 0"]'
    )
    assert [cell.settings.get("model.routing_heads") for cell in result.cells] == [1, 4, None]


def test_sweeps_that_overlap_share_their_jobs() -> None:
    other = GRID.replace("[1, 2]\n  model.kv", "[2, 8]\n  model.kv")
    shared = {job.id for job in planned(GRID).jobs} & {job.id for job in planned(other).jobs}
    # H = 2 and the controls, at two numbers of KV heads and two seeds
    assert len(shared) == 8


HEADS = st.lists(st.integers(1, 70), min_size=1, max_size=6, unique=True)


@settings(max_examples=60, deadline=None)
@given(HEADS, st.lists(st.sampled_from([1, 2, 4]), min_size=1, unique=True), st.integers(1, 3))
def test_the_plan_is_the_product_less_what_is_skipped(heads: list[int], kv: list[int], seeds: int) -> None:
    kept = [(h, k) for h, k in itertools.product(heads, kv) if 64 % h == 0 and h != k]
    text = (
        f"name: s\njob: {{model: {{residual: mhar}}}}\n"
        f"axes: {{model.routing_heads: {heads}, model.kv_heads: {kv}}}\n"
        f"seeds: {list(range(seeds))}\n"
        'skip: ["model.d_model % model.routing_heads != 0 or model.routing_heads == model.kv_heads"]'
    )
    if not kept:
        with pytest.raises(SpecError, match="every cell is skipped"):
            planned(text)
        return
    result = planned(text)
    grid = [cell for cell in result.cells if not cell.is_control]
    assert [tuple(cell.settings.values()) for cell in grid] == kept
    controls = {k for _, k in kept}
    assert len(result.cells) == len(kept) + len(controls)
    assert len({job.id for job in result.jobs}) == len(result.cells) * seeds
    content = [canonical(job.config, job.fingerprint) for job in result.jobs]
    assert math.prod(content.count(c) for c in content) == 1


def test_a_large_grid_is_planned_whole() -> None:
    text = (
        "name: large\njob: {model: {scale: 100m, heads: 16, residual: mhar}}\naxes:\n"
        "  model.routing_heads: [1, 2, 4, 8, 16, 32, 64]\n  model.kv_heads: [1, 2, 4, 8, 16]\n"
        "  train.peak_lr: [1e-4, 2e-4, 4e-4, 8e-4, 16e-4]\nseeds: [0, 1, 2, 3, 4]\n"
    )
    result = planned(text)
    assert (len(result.cells), len(result.jobs)) == (175 + 25, 875 + 125)


def test_a_slip_in_the_lists_is_refused_before_it_is_expanded() -> None:
    values = list(range(1, 200))
    axes = "\n".join(f"  {name}: {values}" for name in ("model.d_ff", "train.steps", "train.eval_windows"))
    with pytest.raises(
        SpecError, match=r"sweep.yaml:2: axes: 7880599 cells at 1 seeds are 7880599 jobs; a sweep"
    ):
        planned(f"name: s\naxes:\n{axes}")

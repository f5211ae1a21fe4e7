"""What tells that a pair was not trained in one environment, and what a mean speed is over."""

import math
from typing import Any

import pytest
from builders import ENVIRONMENT, build_sweep
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table, named_table
from headcount.orchestrator.store.models import Attempt, Cell, Job, Measurement, SweepJob


@pytest.mark.parametrize(
    ("treatment", "control", "is_mixed"),
    [
        ({}, {}, False),
        ({"routing": "two_phase", "routing_launch": "{}"}, {"routing": None, "routing_launch": None}, False),
        ({"routing": "two_phase"}, {"routing": "two_phase"}, False),
        ({"routing": "two_phase"}, {"routing": "fused"}, True),
        ({"routing": "fused", "micro_batch": 4}, {"routing": None}, True),
    ],
)
def test_a_control_without_routing_is_no_other_environment(
    session: Session, treatment: dict[str, Any], control: dict[str, Any], is_mixed: bool
) -> None:
    build_sweep(session, heads=(4,), kv_heads=(2,), seeds=(0, 1))
    for attempt, is_control in _of_cells(session):
        attempt.environment = {**ENVIRONMENT, **(control if is_control else treatment)}
    session.flush()
    (row,) = ablation_table(session, "head-count").treatments
    assert row.mixed_environments is is_mixed


def test_configurations_are_read_once_since_a_job_has_one_for_ever(session: Session) -> None:
    build_sweep(session, heads=(1, 4), kv_heads=(2,), seeds=(0, 1))
    asked: list[str] = []
    connection = session.connection()
    event.listen(connection, "before_cursor_execute", lambda *call: asked.append(call[2]))
    tables = [ablation_table(session, "head-count") for _ in range(3)]
    assert tables[0] == tables[1] == tables[2]
    assert all(row.tokens and row.flops_per_token for row in tables[0].rows)
    assert sum("job.config" in statement for statement in asked) == 1


def _of_cells(session: Session) -> list[tuple[Attempt, bool]]:
    """The attempts of the sweep, and whether they are of a control."""
    of_cell = select(Attempt, Cell.is_control).join(SweepJob, SweepJob.job_id == Attempt.job_id)
    rows = session.execute(of_cell.join(Cell, Cell.id == SweepJob.cell_id)).all()
    return [(attempt, is_control) for attempt, is_control in rows]


@pytest.mark.parametrize(
    ("first", "second", "is_mixed"),
    [
        pytest.param(0, 0, False, id="nothing is left of the first"),
        pytest.param(100, 100, False, id="it ended where it began"),
        pytest.param(0, 100, True, id="the second went on from it"),
    ],
)
def test_an_attempt_of_which_nothing_is_left_is_no_part_of_the_environment(
    session: Session, first: int, second: int, is_mixed: bool
) -> None:
    build_sweep(session, heads=(4,), kv_heads=(2,), seeds=(0, 1))
    for attempt, is_control in _of_cells(session):
        if not is_control:
            attempt.start_step, attempt.environment = first, {**ENVIRONMENT, "micro_batch": 64}
            kept = {"start_step": second, "environment": ENVIRONMENT, "cause": "finished"}
            shared = {"epoch": 1, "slot": "s", "started": attempt.started, "ended": attempt.ended}
            session.add(Attempt(job_id=attempt.job_id, number=2, **kept, **shared))
    session.flush()
    (row,) = ablation_table(session, "head-count").treatments
    assert row.mixed_environments is is_mixed


@pytest.mark.parametrize("torn", [None, math.inf, math.nan])
def test_throughput_counts_the_jobs_that_told_a_speed(session: Session, torn: float | None) -> None:
    build_sweep(session, heads=(4,), kv_heads=(2,), seeds=(0, 1, 2))
    speeds = {0: 100.0, 1: 200.0, 2: torn}
    seeds = select(Job.seed, Measurement).join(Measurement, Measurement.job_id == Job.id)
    for seed, told in session.execute(seeds.where(Measurement.name == "tokens_per_second")).all():
        told.value = speeds[seed]
    session.flush()
    for row in named_table(ablation_table(session, "head-count"), "throughput").rows:
        assert (row["tokens_per_second"], row["n"], row["seeds"]) == (150.0, 2, (0, 1, 2))

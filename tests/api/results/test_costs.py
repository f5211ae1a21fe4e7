"""What tells that a pair was not trained in one environment."""

from typing import Any

import pytest
from builders import ENVIRONMENT, build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table
from headcount.orchestrator.store.models import Attempt, Cell, SweepJob


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
    of_cell = select(Attempt, Cell.is_control).join(SweepJob, SweepJob.job_id == Attempt.job_id)
    for attempt, is_control in session.execute(of_cell.join(Cell, Cell.id == SweepJob.cell_id)).all():
        attempt.environment = {**ENVIRONMENT, **(control if is_control else treatment)}
    session.flush()
    (row,) = ablation_table(session, "head-count").treatments
    assert row.mixed_environments is is_mixed

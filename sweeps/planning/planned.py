"""The parts of a plan: a cell, and a job of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headcount.trainer.config import JobConfig


@dataclass(frozen=True)
class PlannedCell:
    """One setting of the axes, or the control of such settings."""

    position: int
    """In the plan, from 0: the grid in the order of the axes, then the controls that it lacks."""
    settings: Mapping[str, Any]
    """Axis to this cell's value, for the axes that the cell's residual stream reads."""
    is_control: bool
    control: int | None
    """Position of the control that this cell is paired with."""


@dataclass(frozen=True)
class PlannedJob:
    """One cell at one seed."""

    id: str
    config: JobConfig
    fingerprint: str
    cell: int
    """Position of its cell."""
    control_id: str | None
    """The job at the same seed in the cell's control."""
    position: int
    """Order of dispatch, from 0."""
    is_wanted: bool = True
    """False where the cell's trial was pruned: what it lacks is not trained."""

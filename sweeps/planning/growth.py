"""What a sweep has beyond the grid of its file, as the store tells it to the plan."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headcount.trainer.config import JobConfig


@dataclass(frozen=True)
class Growth:
    """Cells and seeds that were added while the sweep ran, and cells that were given up."""

    points: tuple[Mapping[str, Any], ...] = ()
    """Settings of the cells beside the grid, in the order in which they came."""
    seeds: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Seeds beside the file's, by `cell_key`."""
    pruned: frozenset[str] = frozenset()
    """Cells whose trial was pruned, by `cell_key`: what they lack is not wanted."""
    is_over: bool = False
    """Whether nothing will be added any more, for now."""


@dataclass(frozen=True)
class ToCome:
    """Jobs that a sweep may still add to itself: how many at most, and the costliest of them."""

    jobs: int
    config: JobConfig


def cell_key(is_control: bool, settings: Mapping[str, Any]) -> str:
    """Equal for a cell of a plan and the row that the store has of it."""
    return json.dumps([is_control, plain(settings)], sort_keys=True)


def plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """With lists for tuples, as JSON gives them back."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

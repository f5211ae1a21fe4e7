"""What each routing head of a cell reads, from the files that its finished jobs left."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.orm import Session

from headcount.api.results.kept import kept_files

Array = NDArray[np.float64]


@dataclass(frozen=True)
class HeadReads:
    """Means over the jobs of one cell, at their last step, on the first validation window."""

    seeds: tuple[int, ...]
    """Of the jobs that have told."""
    entropy: tuple[Array, ...]
    """By site: [heads], nats, mean over tokens."""
    weights: tuple[Array, ...]
    """By site: [heads, sources], mean over tokens; 0 is the oldest. Sites may differ in heads."""


def head_reads(
    session: Session, sweep: str, cell: int, read: Callable[[str], bytes | None]
) -> HeadReads | None:
    """The reads of a cell; None where no finished job has told them, as none did before they were kept.

    `read` opens an artifact by its key, and gives None where it is gone. Raises `NotFoundError`.
    """
    told: dict[int, dict[str, Any]] = {}
    for file in kept_files(session, sweep, [cell], "routing"):
        content = read(file.key)
        last = json.loads(content.rstrip().rpartition(b"\n")[2]) if content else {}
        if "head_weights" in last:
            told[file.seed] = last
    if not told:
        return None
    return HeadReads(
        tuple(told),
        _means([job["head_entropy"] for job in told.values()]),
        _means([job["head_weights"] for job in told.values()]),
    )


def _means(jobs: list[list[Any]]) -> tuple[Array, ...]:
    return tuple(np.mean([np.array(site) for site in at], axis=0) for at in zip(*jobs, strict=True))

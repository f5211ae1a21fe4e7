"""Asking a store's file by `sqlite3` alone: what the named tables are held against."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from headcount.api.results import MEASURED, NamedTable, ablation_table, measured_table, named_table
from headcount.orchestrator.store import Store

SEEDS = range(4)
SPREAD = (
    "avg(x) AS mean, count(x) AS n, (sum(x * x) - sum(x) * sum(x) / count(x)) / (count(x) - 1) AS variance"
)
"""Of a column x; differences of losses are small enough for it."""


class ByHand:
    """A store's file, read by SQL alone."""

    def __init__(self, store: Store) -> None:
        assert store.file is not None
        self.connection = sqlite3.connect(store.file)
        self.connection.row_factory = sqlite3.Row

    def ask(self, query: str, *values: Any) -> list[sqlite3.Row]:
        return self.connection.execute(query, values).fetchall()


def answer(store: Store, sweep: str, name: str) -> NamedTable:
    with store.read() as session:
        if name in MEASURED:
            return measured_table(session, sweep, name)
        return named_table(ablation_table(session, sweep), name)


def drawn(rng: np.random.Generator, level: float, seeds: Sequence[int] = SEEDS) -> dict[int, float]:
    return {seed: level + float(rng.normal(0, 0.01)) for seed in seeds}


def same_estimate(found: Sequence[float | None], expected: sqlite3.Row) -> None:
    """Mean, ends of the interval, p and pairs, from SQL's mean, variance and number."""
    mean, n = expected["mean"], expected["n"]
    se = (expected["variance"] / n) ** 0.5
    half, p = stats.t.ppf(0.975, n - 1) * se, 2 * stats.t.sf(abs(mean / se), n - 1)
    assert found == pytest.approx([mean, mean - half, mean + half, p, n], rel=1e-6, abs=1e-10)

"""How many seeds each cell is to have, by the spread of its first deltas alone."""

import math
from typing import Any

import numpy as np
import pytest

from headcount.sweeps.file.adaptive import SeedRule
from headcount.sweeps.file.sections import Analysis
from headcount.sweeps.planning.seed_addition import Pair, seeds_wanted
from headcount.sweeps.statistics.seeds import plan_seeds, stein_estimate

RULE = SeedRule(start=3, max=20, half_width=0.01)
NARROW, WIDE = {0: 0.0, 1: 0.002, 2: 0.004}, {0: 0.0, 1: 0.006, 2: 0.012}


def pair(cell: int, deltas: dict[int, float], control: int = 0, **settings: Any) -> Pair:
    return Pair(cell, control, {f"model.{name}": value for name, value in settings.items()}, deltas)


def test_each_pair_gets_what_its_spread_takes_and_the_control_as_many_as_the_greediest() -> None:
    narrow, wide = (plan_seeds(list(d.values()), 0.01, 20).total for d in (NARROW, WIDE))
    assert (narrow, wide) == (3, 7)
    found = seeds_wanted([pair(1, NARROW), pair(2, WIDE), pair(3, NARROW, control=9)], RULE)
    assert found == {1: 3, 2: 7, 0: 7, 3: 3, 9: 3}


def test_a_common_shift_of_all_deltas_changes_nothing() -> None:
    shifted = {seed: delta - 5 for seed, delta in WIDE.items()}
    assert seeds_wanted([pair(1, shifted)], RULE) == seeds_wanted([pair(1, WIDE)], RULE)


def test_later_seeds_never_count_and_an_unfinished_first_stage_waits() -> None:
    later = {**NARROW, 3: 1.0, 4: -1.0}
    assert seeds_wanted([pair(1, later)], RULE) == {1: 3, 0: 3}
    assert seeds_wanted([pair(1, {0: 0.0, 2: 0.1, 3: 0.2})], RULE) == {}


def test_the_maximum_holds() -> None:
    assert seeds_wanted([pair(1, {0: 0.0, 1: 1.0, 2: 2.0})], RULE) == {1: 20, 0: 20}


def test_what_one_contrast_compares_has_as_many_seeds() -> None:
    analysis = Analysis("model.routing_heads", (1, 16), (4, 8))
    pairs = [
        pair(1, NARROW, routing_heads=1, kv_heads=2),
        pair(2, NARROW, routing_heads=2, kv_heads=2),
        pair(3, WIDE, routing_heads=4, kv_heads=2),
        pair(4, NARROW, control=9, routing_heads=1, kv_heads=4),
        pair(5, {0: 0.1}, routing_heads=16, kv_heads=2),
    ]
    assert seeds_wanted(pairs, RULE, analysis) == {1: 7, 2: 3, 3: 7, 4: 3, 0: 7, 9: 3}


def test_intervals_of_all_cells_of_a_contrast_cover_as_stated() -> None:
    analysis, draws = Analysis("model.h", (1, 3), (2,)), 4000
    random = np.random.default_rng(3)
    covered = np.zeros(3)
    rule = SeedRule(start=3, max=60, half_width=1.5)
    for _ in range(draws):
        noise = random.normal(size=(3, 60)) * [[0.5], [1.0], [2.0]]
        pairs = [pair(cell + 1, dict(enumerate(noise[cell, :3])), h=cell + 1) for cell in range(3)]
        totals = seeds_wanted(pairs, rule, analysis)
        for cell in range(3):
            found = stein_estimate(noise[cell, : totals[cell + 1]], 3)
            assert found.low is not None
            assert found.high is not None
            covered[cell] += found.low <= 0 <= found.high
    error = math.sqrt(0.95 * 0.05 / draws)
    assert covered / draws == pytest.approx(0.95, abs=4 * error)

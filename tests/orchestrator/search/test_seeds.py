"""Seeds by Stein's rule, from the first stage to the last seed of a cell and its control."""

import math
from collections.abc import Mapping
from typing import Any

from plans import end, start_next
from search_study import TINY, Study
from sqlalchemy import select

from headcount.orchestrator.search.telling import growth_words
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Cell, Job, SweepJob
from headcount.sweeps.statistics.seeds import plan_seeds

SEEDS = (
    TINY
    + """\
  model.kv_heads: [2, 4]
seeds: {start: 3, max: 6, half_width: 0.01}
"""
)

NOISE = (0.0, 1.0, 2.0, 0.5, 1.5, 1.0)
"""By seed."""


def loss(config: Mapping[str, Any], seed: int) -> float:
    """Deltas spread by 0.001 with one head, 0.004 with two, and 1 with four."""
    if config["model.residual"] == "additive":
        return 3.0
    spread = {1: 0.001, 2: 0.004, 4: 1.0}[config["model.routing_heads"]]
    return 2.9 + spread * NOISE[seed]


def seeds_by_cell(store: Store) -> dict[tuple[int | None, int], list[int]]:
    """Routing heads, none for the control, and KV heads, to the seeds of the cell."""
    query = select(Cell.settings, Job.seed).join(SweepJob, SweepJob.cell_id == Cell.id)
    found: dict[tuple[int | None, int], list[int]] = {}
    with store.read() as session:
        for settings, seed in session.execute(query.join(Job, Job.id == SweepJob.job_id).order_by(Job.seed)):
            cell = settings.get("model.routing_heads"), settings["model.kv_heads"]
            found.setdefault(cell, []).append(seed)
    return found


def test_each_pair_gets_the_seeds_that_its_first_deltas_ask_for(store: Store) -> None:
    study = Study(store, SEEDS)
    jobs = study.run(loss)
    two = plan_seeds([0.0, 0.004, 0.008], 0.01, 6).total
    assert two == 3
    wanted = {1: 3, 2: two, 4: 6, None: 6}
    assert seeds_by_cell(store) == {
        (heads, kv): list(range(total)) for heads, total in wanted.items() for kv in (2, 4)
    }
    assert jobs == study.attempts == 2 * sum(wanted.values())
    assert study.sweep.growth == "over"
    with store.read() as session:
        words = list(growth_words(session, study.sweep))
    assert words == ["Seeds by a rule: from 3 to 6 a cell, of 3 to 6, for intervals of ± 0.01"]
    study.begin()
    assert study.run(loss) == 0
    assert study.sweep.growth == "over"


def test_what_one_contrast_compares_gets_as_many(sqlite: Store) -> None:
    study = Study(sqlite, SEEDS + "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2]}\n")
    study.run(loss)
    assert {len(seeds) for seeds in seeds_by_cell(sqlite).values()} == {6}


def test_a_cell_with_a_diverged_or_failed_first_seed_gets_no_more(sqlite: Store) -> None:
    def breaks(config: Mapping[str, Any], seed: int) -> float:
        four = config["model.residual"] == "mhar" and config["model.routing_heads"] == 4
        return math.nan if four and config["model.kv_heads"] == 2 and seed == 1 else loss(config, seed)

    study = Study(sqlite, SEEDS)
    study.run(breaks, most=1)
    with sqlite.write() as session:
        failed = start_next(session)
        end(session, failed, "user_error")
    study.run(breaks)
    found = seeds_by_cell(sqlite)
    assert found[4, 2] == [0, 1, 2]
    assert found[4, 4] == list(range(6))
    assert study.sweep.growth == "over"

"""A refined axis, from its grid to the last round: every method at the same rates, the control too."""

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from search_study import Study
from sqlalchemy import select

from headcount.orchestrator.search.telling import growth_words
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Cell

REFINE = """
name: tiny
job:
  model: {scale: nano, residual: mhar}
  train: {steps: 40, eval_every: 5}
axes:
  model.routing_heads: [1, 4]
  train.peak_lr: [1e-4, 1e-3, 1e-2]
seeds: [0, 1]
refine: train.peak_lr
"""


def bowls(config: Mapping[str, Any], seed: int) -> float:
    """The control is best at 2e-3, one head at 1e-3, and four heads diverge from 5e-3 on."""
    is_control, rate = config["model.residual"] == "additive", config["train.peak_lr"]
    if not is_control and config["model.routing_heads"] == 4 and rate > 5e-3:
        return math.nan
    return 3 + math.log10(rate / (2e-3 if is_control else 1e-3)) ** 2 + 0.001 * seed


def rates_by_method(store: Store) -> dict[str, list[float]]:
    found = defaultdict(list)
    with store.read() as session:
        for cell in session.scalars(select(Cell)):
            method = "control" if cell.is_control else str(cell.settings["model.routing_heads"])
            found[method].append(cell.settings["train.peak_lr"])
    return {method: sorted(rates) for method, rates in found.items()}


def test_every_method_gets_the_rates_that_one_asks_for_and_a_second_run_nothing(store: Store) -> None:
    study = Study(store, REFINE)
    jobs = study.run(bowls)
    # first beside 1e-3 for all; then again for the treatments, and beside 3.162e-3 for the control
    rates = [1e-4, 0.0003162, 0.0005623, 1e-3, 0.001778, 0.003162, 0.005623, 1e-2]
    assert rates_by_method(store) == {"control": rates, "1": rates, "4": rates}
    assert jobs == study.attempts == 3 * len(rates) * 2
    assert study.sweep.growth == "over"
    assert study.sweep.axes["train.peak_lr"] == rates
    with store.read() as session:
        words = list(growth_words(session, study.sweep))
    assert words == ["Refined: 5 values of train.peak_lr beside those listed"]
    study.begin()
    assert study.run(bowls) == 0
    assert study.sweep.growth == "over"


def test_an_edit_back_to_the_plain_grid_withdraws_what_was_added(sqlite: Store) -> None:
    study = Study(sqlite, REFINE)
    study.run(bowls, most=21)
    assert len(rates_by_method(sqlite)["1"]) == 5
    study.text = REFINE.replace("refine: train.peak_lr\n", "")
    study.begin()
    assert {tuple(rates) for rates in rates_by_method(sqlite).values()} == {(1e-4, 1e-3, 1e-2)}
    assert (study.sweep.growth, study.sweep.adaptive) == (None, None)

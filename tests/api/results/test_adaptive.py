"""Tables of sweeps that added cells or seeds to themselves: what each row rests on and says."""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from search_study import TINY, Study

from headcount.api.results import ablation_table, best_cell, named_table, paired_statistics, sweep_brief
from headcount.api.results.tables import AblationTable
from headcount.orchestrator.store import Store, open_store
from headcount.sweeps.statistics import best_cells, loss_table, plan_seeds, stein_estimate

NOISE = (0.0, 1.0, 2.0, 0.5, 1.5, 1.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path / 'headcount.db'}")) as opened:
        yield opened


def noisy(config: Mapping[str, Any], seed: int) -> float:
    """Deltas spread by 0.001 with one head, 0.004 with two, and 1 with four."""
    if config["model.residual"] == "additive":
        return 3.0
    return 2.9 + {1: 0.001, 2: 0.004, 4: 1.0}[config["model.routing_heads"]] * NOISE[seed]


def table_of(store: Store) -> AblationTable:
    with store.read() as session:
        return ablation_table(session, "tiny")


def test_seeds_by_a_rule_have_steins_interval_and_are_undecided_at_the_most_seeds(store: Store) -> None:
    Study(store, TINY + "seeds: {start: 3, max: 6, half_width: 0.01}\n").run(noisy)
    rows = {row.settings["model.routing_heads"]: row for row in table_of(store).treatments}
    assert {heads: (row.seeds, row.undecided) for heads, row in rows.items()} == {
        1: ((0, 1, 2), False),
        2: ((0, 1, 2), False),
        4: ((0, 1, 2, 3, 4, 5), True),
    }
    for row in rows.values():
        assert row.delta is not None
        by_rule = stein_estimate(row.delta.deltas, 3)
        assert (row.delta.low, row.delta.high, row.delta.p) == (by_rule.low, by_rule.high, by_rule.p)
        assert row.delta.df == 2
    planned = plan_seeds([-0.1, 0.9, 1.9], 0.01, 6)
    assert rows[4].note == f"undecided: ± 1.8 with 6 seeds, where ± 0.01 takes {planned.wanted}"
    assert (rows[1].note, rows[2].note) == ("", "")


def test_a_u_over_seeds_that_a_rule_added_has_the_error_of_the_first_ones(store: Store) -> None:
    analysis = "analysis: {axis: model.routing_heads, ends: [1, 4], middle: [2]}\n"
    Study(store, TINY + analysis + "seeds: {start: 3, max: 6, half_width: 0.01}\n").run(noisy)
    table = table_of(store)
    assert table.first_seeds == 3
    rows = {row.settings["model.routing_heads"]: row for row in table.treatments}
    assert {row.seeds for row in rows.values()} == {
        tuple(range(6))
    }  # as many as the noisiest of the contrast
    statistics = paired_statistics(table)
    [line] = statistics.shapes
    assert line.shape is not None
    for contrast in line.shape.ends:
        rises = [a - b for a, b in zip(rows[int(contrast.end)].losses, rows[2].losses, strict=True)]
        staged = stein_estimate(rises, 3)
        assert (contrast.rise.mean, contrast.rise.df) == (pytest.approx(staged.mean), 2)
        assert (contrast.rise.low, contrast.rise.high) == pytest.approx((staged.low, staged.high))
    losses = loss_table([dict(zip(row.seeds, row.losses, strict=True)) for row in rows.values()]).losses
    [best] = statistics.best
    assert [s.low for s in best.standings] == [s.low for s in best_cells(losses, start=3).standings]
    assert {c.moderated for c in statistics.comparisons} == {None}


def test_best_against_best_over_seeds_that_a_rule_added_has_their_error(store: Store) -> None:
    rates = "  train.peak_lr: [1e-4, 1e-3]\n"
    Study(store, TINY + rates + "seeds: {start: 3, max: 6, half_width: 0.01}\n").run(noisy)
    for record in named_table(table_of(store), "best_lr").rows:
        if record["pairs"] == 6:
            deltas = [-0.1 + NOISE[seed] for seed in range(6)]
            staged = stein_estimate(deltas, 3)
            assert (record["low"], record["high"]) == pytest.approx((staged.low, staged.high))
            return
    pytest.fail("no cell has added seeds")


def test_before_the_first_seeds_are_in_the_interval_is_the_paired_one(store: Store) -> None:
    study = Study(store, TINY + "seeds: {start: 3, max: 6, half_width: 0.01}\n")
    study.run(noisy, most=8)
    row = table_of(store).treatments[0]
    assert row.delta is not None
    assert (row.delta.n, row.delta.df, row.undecided) == (2, 1, False)


def test_the_best_of_a_search_is_reported_on_fresh_seeds_and_pruned_cells_say_so(store: Store) -> None:
    def loss(config: Mapping[str, Any], seed: int) -> float:
        heads = 0 if config["model.residual"] == "additive" else config["model.routing_heads"]
        # the seeds of the search flatter every cell
        lucky = 0.1 if seed == 0 else 0.0
        return 3 - 0.01 * heads + math.log10(config["train.peak_lr"] / 1e-3) ** 2 - lucky

    rates = "  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}\n"
    study = Study(store, TINY + rates + "search: {method: tpe, trials: 9, parallel: 2, prune: true}\n")
    study.run(loss)
    table = table_of(store)
    [best] = [row for row in table.treatments if row.note == "best of the search, on fresh seeds"]
    found = min((t for t in study.trials if t.state == "complete"), key=lambda trial: trial.value)
    assert best.cell == found.cell_id
    assert best.seeds == (1, 2, 3)
    assert best.mean == pytest.approx(found.value + 0.1)
    assert best.delta is not None
    assert best.delta.seeds == (1, 2, 3)
    assert best.delta.mean == pytest.approx(-0.01 * best.settings["model.routing_heads"])
    assert table.fresh_seeds == (1, 2, 3)
    assert best.rank == 1
    assert best_cell(table.treatments, table.fresh_seeds) == best.cell
    # the luck of the others would name another
    assert best_cell([row for row in table.treatments if row.n == 1]) != best.cell
    with store.read() as session:
        brief = sweep_brief(session, "tiny")
    assert brief is not None
    assert (brief.best.cell, brief.best.seeds) == (best.cell, (1, 2, 3))
    statistics = paired_statistics(table)
    assert (statistics.best, statistics.rules, statistics.rates) == ((), (), ())
    pruned = {trial.cell_id for trial in study.trials if trial.state == "pruned"}
    assert pruned
    assert {row.cell for row in table.rows if row.note == "pruned at step 20"} == pruned
    assert {row.seeds for row in table.treatments if row.cell not in {best.cell, *pruned}} == {(0,)}


def test_a_search_names_no_best_before_its_fresh_seeds_have_a_loss(store: Store) -> None:
    rates = "  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}\n"
    study = Study(store, TINY + rates + "search: {method: random, trials: 2, parallel: 1, fresh_seeds: 1}\n")

    def loss(config: Mapping[str, Any], seed: int) -> float:
        return 3.0 + config["train.peak_lr"]

    study.run(loss, most=4)
    study.grow()
    assert [trial.state for trial in study.trials] == ["complete"] * 2
    table = table_of(store)
    assert best_cell(table.treatments) is not None
    assert best_cell(table.treatments, table.fresh_seeds) is None
    with store.read() as session:
        assert sweep_brief(session, "tiny") is None
    study.run(loss)
    with store.read() as session:
        assert sweep_brief(session, "tiny") is not None

"""Searches from their first suggestion to the best cell on fresh seeds, on both engines."""

import math
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from plans import FILES, end, start_next
from search_study import TINY, Study
from sqlalchemy import select

from headcount.orchestrator.exchange.bundle import write_bundle
from headcount.orchestrator.exchange.importing import import_bundle
from headcount.orchestrator.following.overview import job_lines, sweep_state
from headcount.orchestrator.search.telling import growth_words
from headcount.orchestrator.store import Store, open_store, withdraw
from headcount.orchestrator.store.models import Cell, Job, SweepJob
from headcount.orchestrator.store.steering import pause, resume, retry

SEARCH = (
    TINY
    + """\
  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}
seeds: [0, 1]
search: {method: tpe, trials: 6, parallel: 2}
"""
)


def bowl(config: Mapping[str, Any], seed: int) -> float:
    """Lowest at four heads and a rate of 1e-3; a control is worse than all."""
    heads = {1: 0.2, 2: 0.1, 4: 0.0}.get(config["model.routing_heads"], 0.3)
    penalty = 0.3 if config["model.residual"] == "additive" else heads
    return 3 + penalty + 0.1 * math.log10(config["train.peak_lr"] / 1e-3) ** 2 + 0.01 * seed


def test_a_search_ends_with_its_best_cell_on_fresh_seeds(store: Store) -> None:
    study = Study(store, SEARCH)
    assert study.sweep.growth == "growing"
    jobs = study.run(bowl)
    trials = study.trials
    assert [trial.number for trial in trials] == list(range(6))
    assert {trial.state for trial in trials} == {"complete"}
    assert study.sweep.growth == "over"
    cells = len({trial.cell_id for trial in trials})
    best = min(trials, key=lambda trial: trial.value)
    with store.read() as session:
        seeds = select(Job.seed).join(SweepJob, SweepJob.job_id == Job.id)
        assert sorted(session.scalars(seeds.where(SweepJob.cell_id == best.cell_id))) == [0, 1, 2, 3, 4]
        control = session.get_one(Cell, best.cell_id).control_id
        assert sorted(session.scalars(seeds.where(SweepJob.cell_id == control))) == [0, 1, 2, 3, 4]
        controls = session.scalars(select(Cell).where(Cell.is_control)).all()
    # a suggested rate also trains its control; the best cell and its control have three fresh seeds
    assert jobs == study.attempts == 2 * (cells + len(controls)) + 2 * 3
    assert study.begin() is None
    assert study.run(bowl) == 0


def test_the_same_trials_come_out_whatever_job_ends_first_and_whoever_schedules(
    tmp_path: Path,
) -> None:
    found = []
    for turn in range(2):
        with closing(open_store(f"sqlite:///{tmp_path / str(turn)}.db")) as store:
            study = Study(store, SEARCH)
            study.run(bowl, order=Random(turn))
            found.append([trial.settings for trial in study.trials])
    assert found[0] == found[1]
    with closing(open_store(f"sqlite:///{tmp_path / 'other'}.db")) as store:
        study = Study(store, SEARCH.replace("trials", "seed: 1, trials"))
        study.run(bowl)
        assert [trial.settings for trial in study.trials] != found[0]


def test_a_known_suggestion_costs_nothing_and_a_small_space_ends(sqlite: Store) -> None:
    text = SEARCH.replace("{low: 1e-4, high: 1e-2, log: true}", "[1e-3, 1e-2]")
    study = Study(sqlite, text.replace("trials: 6", "trials: 8"))
    jobs = study.run(bowl)
    assert len(study.trials) == 8
    cells = {trial.cell_id for trial in study.trials}
    assert len(cells) <= 6 < 8
    assert jobs == 2 * (len(cells) + 2) + 2 * 3
    with sqlite.read() as session:
        words = list(growth_words(session, study.sweep))
    assert words[0] == f"Search by tpe: 8 of 8 trials, {8 - len(cells)} of cells that were there already"
    assert words[1].startswith("Best trial: routing_heads=4 peak_lr=0.001, loss 3.0050, the lowest of many")
    assert words[2].startswith("On 3 fresh seeds: loss 3.0300, delta -0.3000")


def test_jobs_of_other_sweeps_are_shared_by_a_search(sqlite: Store) -> None:
    grid = SEARCH.replace("{low: 1e-4, high: 1e-2, log: true}", "[1e-3, 1e-2]")
    study = Study(sqlite, grid.replace("name: tiny", "name: grid").split("search:")[0])
    assert study.run(bowl) == 16
    search = Study(sqlite, grid.replace("fresh_seeds: 3", "").replace("parallel: 2", "fresh_seeds: 0"))
    assert search.run(bowl) == 0
    assert {trial.state for trial in search.trials} == {"complete"}


def test_a_diverged_trial_is_told_a_penalty_and_a_failed_one_nothing(sqlite: Store) -> None:
    def loss(config: Mapping[str, Any], seed: int) -> float:
        return math.nan if config["train.peak_lr"] > 3e-3 else bowl(config, seed)

    study = Study(sqlite, SEARCH)
    study.run(loss)
    diverged = [trial for trial in study.trials if trial.settings["train.peak_lr"] > 3e-3]
    assert diverged
    assert {trial.value for trial in diverged} == {2 * math.log(256)}
    assert {trial.state for trial in study.trials} == {"complete"}
    best = min(study.trials, key=lambda trial: trial.value or 0)
    assert best.value is not None
    assert best.value < 4
    assert study.sweep.growth == "over"


def test_a_search_without_any_loss_says_so(sqlite: Store) -> None:
    study = Study(sqlite, SEARCH)
    study.run(lambda config, seed: math.nan)
    assert study.sweep.growth == "stopped"
    assert study.sweep.growth_note == "no trial has a loss: all diverged, failed or were skipped"


def test_failed_trials_block_nothing_and_a_retry_values_them(sqlite: Store) -> None:
    study = Study(sqlite, SEARCH)
    study.run(bowl, most=1)  # the first trial's control
    with sqlite.write() as session:
        end(session, start_next(session), "user_error")
    study.run(bowl)
    failed = [trial for trial in study.trials if trial.state == "failed"]
    assert [trial.value for trial in failed] == [None] * len(failed)
    assert failed
    with sqlite.write() as session:
        retry(session, study.sweep.id, by="tester")
    assert study.sweep.growth == "growing"
    study.run(bowl)
    assert {trial.state for trial in study.trials} == {"complete"}


def test_points_that_the_file_skips_cost_nothing(sqlite: Store) -> None:
    study = Study(sqlite, SEARCH + 'skip: ["model.routing_heads == 2 and train.peak_lr > 5e-4"]\n')
    study.run(bowl)
    skipped = [trial for trial in study.trials if trial.state == "skipped"]
    assert skipped
    for trial in study.trials:
        barred = trial.settings["model.routing_heads"] == 2 and trial.settings["train.peak_lr"] > 5e-4
        assert (trial.state == "skipped") == barred == (trial.cell_id is None)


def test_a_delta_is_made_small_where_all_trials_have_one_control(sqlite: Store) -> None:
    text = SEARCH.replace("  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}\n", "")
    study = Study(sqlite, text.replace("trials: 6", "trials: 5, objective: delta"))
    study.run(bowl)
    by_heads = {trial.settings["model.routing_heads"]: trial.value for trial in study.trials}
    wanted = {1: -0.1, 2: -0.2, 4: -0.3}
    assert by_heads == pytest.approx({heads: wanted[heads] for heads in by_heads})


def test_pruning_gives_up_what_is_behind_and_keeps_what_is_not(sqlite: Store) -> None:
    study = Study(sqlite, SEARCH.replace("trials: 6", "trials: 10, prune: true"))
    study.run(bowl)
    pruned = [trial for trial in study.trials if trial.state == "pruned"]
    complete = [trial for trial in study.trials if trial.state == "complete"]
    assert len(pruned) + len(complete) == 10
    assert pruned
    assert min(pruned, key=lambda trial: trial.number).number >= 5
    assert {trial.step for trial in pruned} == {20}
    with sqlite.read() as session:
        states = select(Job.seed, Job.state).join(SweepJob, SweepJob.job_id == Job.id)
        for trial in pruned:
            rows = session.execute(states.where(SweepJob.cell_id == trial.cell_id).order_by(Job.seed)).all()
            assert rows == [(0, "finished"), (1, "cancelled")]
        lines = job_lines(session, study.sweep)
    assert {line.state for line in lines if line.pruned} == {"cancelled"}
    # what was given up stays so when the same file is submitted again
    assert study.begin() is None
    assert study.run(bowl) == 0


def test_an_edited_search_goes_on_with_the_trials_that_fit(sqlite: Store) -> None:
    study = Study(sqlite, SEARCH)
    study.run(bowl)
    before = [trial.settings for trial in study.trials]
    study.text = SEARCH.replace("trials: 6", "trials: 8")
    study.begin()
    assert study.run(bowl) > 0
    assert [trial.settings for trial in study.trials][:6] == before
    assert len(study.trials) == 8
    study.text = study.text.replace("low: 1e-4", "low: 5e-4")
    study.begin()
    kept = [settings for settings in before if settings["train.peak_lr"] >= 5e-4]
    assert [trial.settings for trial in study.trials][: len(kept)] == kept
    study.run(bowl)
    assert len(study.trials) == 8
    assert all(trial.settings["train.peak_lr"] >= 5e-4 for trial in study.trials)
    study.text = study.text.replace("seeds: [0, 1]", "seeds: [0]")
    study.begin()
    assert study.run(bowl) <= 2 * 3  # seed 1 is a fresh one now
    best = min(study.trials, key=lambda trial: trial.value)
    with sqlite.read() as session:
        seeds = select(SweepJob.cell_id, Job.seed).join(Job, Job.id == SweepJob.job_id)
        trained = session.execute(seeds.join(Cell, Cell.id == SweepJob.cell_id).where(~Cell.is_control))
        assert {cell for cell, seed in trained if seed > 0} == {best.cell_id}


def test_a_search_is_paused_resumed_and_cancelled(store: Store) -> None:
    study = Study(store, SEARCH)
    sweep_id = study.sweep.id
    with store.write() as session:
        assert pause(session, sweep_id, by="tester") == 0
    study.grow()
    assert (study.sweep.growth, study.trials) == ("held", [])
    with store.read() as session:
        state = sweep_state(session, study.sweep)
        assert (state.words, state.progress) == (
            "0 queued, more to come (paused)",
            "0 queued of 0, more to come (paused)",
        )
    with store.write() as session:
        resume(session, sweep_id, by="tester")
    study.run(bowl, most=3)
    with store.write() as session:
        withdraw(session, sweep_id, by="tester")
    asked = len(study.trials)
    study.grow()
    assert study.sweep.growth == "cancelled"
    assert len(study.trials) == asked
    study.begin()
    study.run(bowl, most=6)
    assert len(study.trials) > asked


def test_a_missing_optuna_stops_the_search_alone_with_what_to_do(
    sqlite: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    study = Study(sqlite, SEARCH)
    study.grow()
    assert study.sweep.growth == "stopped"
    note = "tiny:10: search: the scheduler's Python lacks optuna; there: pip install optuna"
    assert study.sweep.growth_note == note
    with sqlite.read() as session:
        assert list(growth_words(session, study.sweep))[-1] == f"Nothing more is added: {note}"


def test_a_search_goes_on_in_another_store_from_its_bundle(sqlite: Store, tmp_path: Path) -> None:
    study = Study(sqlite, SEARCH)
    study.run(bowl, most=14)
    with sqlite.read() as session:
        write_bundle(session, "tiny", tmp_path / "tiny.tar.gz", FILES.read)
    with closing(open_store(f"sqlite:///{tmp_path / 'other.db'}")) as store:
        import_bundle(store, tmp_path / "tiny.tar.gz", FILES)
        other = Study(store, SEARCH, begun=True)
        assert other.sweep.growth == "cancelled"
        assert [trial.settings for trial in other.trials] == [trial.settings for trial in study.trials]
        other.begin()
        other.run(bowl)
        study.run(bowl)
        assert [(trial.settings, trial.value) for trial in other.trials] == [
            (trial.settings, trial.value) for trial in study.trials
        ]

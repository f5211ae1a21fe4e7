"""Suggestions: a function of the trials so far, whatever process asks."""

import math
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sqlalchemy import select

from headcount.orchestrator.search.suggesting import PastTrial, suggest
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.submitting.running import run_sweep
from headcount.sweeps.file.spec import SweepSpec, parse_spec
from headcount.trainer.errors import UserError

METHODS = ["tpe", "random", "cmaes", pytest.param("gp", marks=pytest.mark.timeout(120))]


def spec(method: str, seed: int = 0, parallel: int = 1) -> SweepSpec:
    heads = "" if method == "cmaes" else "  model.routing_heads: [1, 2, 4]\n"
    return parse_spec(
        "name: a\njob: {model: {scale: nano, residual: mhar}}\naxes:\n"
        f"{heads}  train.peak_lr: {{low: 1e-4, high: 1e-2, log: true}}\n"
        "  train.warmup_steps: {low: 1, high: 20}\n"
        f"search: {{method: {method}, trials: 40, seed: {seed}, parallel: {parallel}}}\n",
        "a.yaml",
    )


def bowl(settings: Mapping[str, Any]) -> float:
    rate, warmup = math.log10(settings["train.peak_lr"] / 1e-3), settings["train.warmup_steps"] - 10
    return 3 + rate**2 + 0.01 * warmup**2 + 0.1 * settings.get("model.routing_heads", 0)


def searched(of: SweepSpec, trials: int) -> list[PastTrial]:
    past: list[PastTrial] = []
    for _ in range(trials):
        settings = suggest(of, past)
        past.append(PastTrial(settings, bowl(settings)))
    return past


@pytest.mark.parametrize("method", METHODS)
def test_the_same_history_has_the_same_next_point_within_the_space(method: str) -> None:
    trials = 11 if method == "gp" else 20
    past = searched(spec(method), trials)
    for number in (0, 1, 7, trials - 1):
        assert suggest(spec(method), past[:number]) == past[number].settings
    assert len({str(trial.settings) for trial in past}) > trials // 2
    for trial in past:
        rate, warmup = trial.settings["train.peak_lr"], trial.settings["train.warmup_steps"]
        assert 1e-4 <= rate <= 1e-2
        assert rate == float(f"{rate:.4g}")
        assert isinstance(warmup, int)
        assert 1 <= warmup <= 20
        assert method == "cmaes" or trial.settings["model.routing_heads"] in (1, 2, 4)
    assert [trial.settings for trial in searched(spec(method, seed=1), 3)] != [
        trial.settings for trial in past[:3]
    ]


@pytest.mark.parametrize("method", ["tpe", "cmaes"])
def test_a_method_that_learns_is_closer_at_the_end_than_at_random(method: str) -> None:
    of = spec(method)
    learnt = [trial.value or 0 for trial in searched(of, 40)]
    drawn = [trial.value or 0 for trial in searched(spec("random"), 40)]
    assert sum(learnt[-10:]) / 10 < sum(drawn) / 40 - 0.3


@pytest.mark.parametrize("method", ["tpe", "cmaes"])
def test_the_latest_trials_are_taken_for_open_whether_they_have_ended_or_not(method: str) -> None:
    of = spec(method, parallel=4)
    past = searched(of, 16)
    open_ones = [PastTrial(trial.settings, None, is_open=True) for trial in past[-3:]]
    assert suggest(of, past) == suggest(of, [*past[:-3], *open_ones])
    turned = [PastTrial(trial.settings, -(trial.value or 0)) for trial in past[:-3]]
    assert suggest(of, past) != suggest(of, [*turned, *past[-3:]])


@pytest.mark.parametrize("method", ["tpe", "random", "cmaes"])
def test_pruned_failed_and_equal_trials_are_taken(method: str) -> None:
    past = searched(spec(method), 8)
    past += [
        PastTrial(past[0].settings, 4.0, pruned_at=20),
        PastTrial(past[1].settings, None),
        PastTrial(past[2].settings, past[2].value),
    ]
    assert suggest(spec(method), past).keys() == past[0].settings.keys()


def test_a_run_whose_scheduler_could_not_suggest_is_refused_before_anything_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `gp`, which needs torch: a command on a machine without it starts no scheduler for it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    file = tmp_path / "a.yaml"
    file.write_text(spec("gp").text)
    settings = Settings(tmp_path, f"sqlite:///{tmp_path / 'headcount.db'}", tmp_path)
    with pytest.raises(
        UserError, match="search: the scheduler's Python lacks torch; there: pip install torch"
    ):
        run_sweep(str(file), settings, None, Console())
    with closing(open_store(settings)) as store, store.read() as session:
        assert session.scalars(select(Sweep)).all() == []

"""Sharing a device, measured on the processor."""

from pathlib import Path
from typing import Any

import pytest
import torch

from headcount.orchestrator.bench import packing_side, sharing
from headcount.orchestrator.bench.figures import Figure
from headcount.orchestrator.bench.sharing import packing
from headcount.trainer.config import fields_of, job_from_fields
from headcount.trainer.data import open_dataset, prepare


def test_two_at_a_time_find_what_one_at_a_time_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With so little time for it, jobs are as short as they can be."""
    monkeypatch.setattr(sharing, "BUDGET_SECONDS", 1e-6)
    monkeypatch.setattr(sharing, "TRIAL_STEPS", 16)
    lines = list(packing(tmp_path, "cpu", "nano", None, counts=(1, 2)))
    assert isinstance(lines[0], str)
    assert lines[0].startswith("2 jobs of nano, 8 steps, on the cpu; load ")
    figures = [line for line in lines if isinstance(line, Figure)]
    assert [figure.name for figure in figures[::2]] == [
        "jobs an hour, 1 at a time",
        "jobs an hour, 2 at a time",
    ]
    assert [figure.value for figure in figures[1::2]] == [0, 0]
    assert figures[0].detail == "1.00 × of one"
    assert 0 < figures[2].value < 3600 * 1000


def test_all_rounds_together_take_the_time_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """32 jobs in 80 s are 2.5 s each, in which a slot that takes 2 s for 200 steps does 250."""

    class Told:
        def ask(self, fields: dict[str, Any], seeds: list[int]) -> None:
            self.steps = fields["train.steps"]

        def answer(self) -> dict[str, Any]:
            return {"begun": 10.0, "ended": 10.0 + self.steps / 100}

    monkeypatch.setattr(sharing, "BUDGET_SECONDS", 80.0)
    assert sharing._affordable(Told(), {}, 32) == 250  # type: ignore[arg-type]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_told_by_the_slot(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a slot " * 1000)
    config = job_from_fields({"data.text": [str(tmp_path / "text.txt")]})
    dataset = open_dataset(prepare(config.data, tmp_path).fingerprint, tmp_path)
    told = packing_side.answer(dataset, "cuda", fields_of(config), [0])
    assert told == {"error": "device cuda was asked for, but PyTorch finds no GPU; use auto or cpu"}

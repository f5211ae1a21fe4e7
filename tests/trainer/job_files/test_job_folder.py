import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from small_jobs import after

from headcount.trainer import attempt
from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.data import Dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import Artifact, Checkpoint, Event, Progress, Result, Routing, Started
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.model_file import job_of, read_model
from headcount.trainer.loop import train

Job = Callable[..., JobConfig]
ROUTED = {"model__residual": "mhar", "model__routing_heads": 4}


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def artifacts(events: list[Event]) -> dict[str, str]:
    return {event.purpose: event.file for event in events if isinstance(event, Artifact)}


def test_what_an_ended_job_leaves(
    small_job: Job, small_data: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "PROGRESS_SECONDS", 0.0)
    config = small_job(**ROUTED)
    events = list(train(config, small_data, folder=tmp_path, execution=Execution(checkpoint_seconds=0)))
    assert names(tmp_path) == {
        *("model.safetensors", "training_loss.npy", "routing.jsonl"),
        *("checkpoints/step-00000016.pt", "checkpoints/step-00000016.json"),
    }
    assert artifacts(events) == {
        "model": "model.safetensors",
        "curve": "training_loss.npy",
        "routing": "routing.jsonl",
    }
    losses = np.load(tmp_path / "training_loss.npy")
    assert losses.dtype == np.float32
    assert losses.tolist() == [event.loss for event in events if isinstance(event, Progress)]
    lines = [json.loads(line) for line in (tmp_path / "routing.jsonl").read_text().splitlines()]
    assert [Routing(r["step"], tuple(r["entropy"]), tuple(r["top_source"])) for r in lines] == [
        event for event in events if isinstance(event, Routing)
    ]
    assert ["head_weights" in line for line in lines] == [False] * (len(lines) - 1) + [True]
    assert [len(site) for site in lines[-1]["head_weights"]] == [4] * len(lines[-1]["entropy"])
    assert [np.mean(site) for site in lines[-1]["head_entropy"]] == pytest.approx(
        lines[-1]["entropy"], abs=1e-4
    )
    weights, metadata = read_model(tmp_path / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert job_of(metadata) == config
    assert (tmp_path / "checkpoints" / "step-00000016.pt").stat().st_size < 30_000  # no weights


def test_two_checkpoints_are_kept_until_the_end(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    every = Execution(checkpoint_seconds=0)
    stopped = train(small_job(), small_data, folder=tmp_path, execution=every, stop=after(7))
    told = [event.step for event in stopped if isinstance(event, Checkpoint)]
    assert told == [1, 2, 3, 4, 5, 6, 7]
    assert names(tmp_path) == {f"checkpoints/step-{n:08}.{kind}" for n in (6, 7) for kind in ("pt", "json")}


def test_checkpoints_that_a_listener_sends_elsewhere_slowly_are_fewer(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    steps = []
    often = Execution(checkpoint_seconds=1e-6)
    for event in train(small_job(train__steps=40), small_data, folder=tmp_path, execution=often):
        if isinstance(event, Checkpoint):
            steps.append(event.step)
            time.sleep(0.4)  # fifty times as long is more than the job takes
    assert steps == [1, 40]


def test_a_diverged_job_keeps_its_losses_and_tells_its_end_again(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    config = small_job(train__peak_lr=1e30, train__steps=40, train__eval_every=5)
    every = Execution(checkpoint_seconds=0)
    events = list(train(config, small_data, folder=tmp_path, execution=every))
    assert artifacts(events) == {"curve": "training_loss.npy"}
    losses = np.load(tmp_path / "training_loss.npy")
    assert len(losses) == 3
    assert not math.isfinite(losses[-1])
    again = list(train(config, small_data, folder=tmp_path, execution=every))
    assert isinstance(events[-1], Result)
    assert again[-1] == events[-1]
    assert again[-1].outcome == "diverged"


@pytest.mark.parametrize("file", ["model.safetensors", "training_loss.npy"])
def test_a_job_whose_files_are_damaged_is_trained_again(
    small_job: Job, small_data: Dataset, tmp_path: Path, file: str
) -> None:
    first = list(train(small_job(), small_data, folder=tmp_path))
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    (tmp_path / f".{file}.123").write_bytes(b"half")
    again = list(train(small_job(), small_data, folder=tmp_path))
    assert isinstance(again[0], Started)
    assert again[0].step == 0
    assert artifacts(again) == artifacts(first)
    assert (tmp_path / file).read_bytes() == content
    assert not list(tmp_path.glob(".*"))


def test_a_result_that_cannot_be_written(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(UserError, match=rf"cannot write the result in {tmp_path}: Is a directory; free some"):
        list(train(small_job(), small_data, folder=tmp_path))


def test_a_scale_for_planning_alone_is_not_trained(small_data: Dataset) -> None:
    with pytest.raises(UserError, match=r"model\.scale: 8b is for planning and conversion"):
        next(train(job_from_fields({"model.scale": "8b"}), small_data))

"""A training checkpoint as what another job starts from."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headcount.trainer.config import JobConfig, fields_of
from headcount.trainer.data import Dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import Evaluation
from headcount.trainer.execution import Execution
from headcount.trainer.job_files.checkpoint_model import model_of_checkpoint
from headcount.trainer.job_files.model_file import job_of, read_model
from headcount.trainer.loop import train
from headcount.trainer.single_job import main


@pytest.fixture
def stopped(
    small_job: Callable[..., JobConfig], small_data: Dataset, tmp_path: Path
) -> tuple[JobConfig, Path]:
    """A job that was stopped at step 6, and its checkpoint."""
    config = small_job(model__residual="mhar", model__routing_heads=4, train__ema_decay=0.9)
    asked = iter(range(100))
    list(
        train(
            config, small_data, folder=tmp_path / "job", execution=Execution(), stop=lambda: next(asked) == 6
        )
    )
    [checkpoint] = (tmp_path / "job").rglob("step-*.pt")
    return config, checkpoint


def test_its_weights_are_a_models_file(stopped: tuple[JobConfig, Path], tmp_path: Path) -> None:
    config, checkpoint = stopped
    made = model_of_checkpoint(checkpoint, tmp_path / "made")
    tensors, metadata = read_model(made)
    state = torch.load(checkpoint, weights_only=True)["model"]
    assert tensors.keys() == state.keys()
    assert all(torch.equal(tensors[name], state[name]) for name in state)
    assert job_of(metadata) == config
    assert (metadata["headcount.step"], metadata["headcount.weights"]) == ("6", "trained")
    assert model_of_checkpoint(checkpoint, tmp_path / "again").read_bytes() == made.read_bytes()


def test_one_job_alone_goes_on_from_it(
    stopped: tuple[JobConfig, Path], small_data: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its first loss is that of the weights at the checkpoint's step, not of their average."""
    config, checkpoint = stopped
    home = small_data.folder.parents[1]
    own = {"init.from": str(checkpoint), "model.residual": "mhar", "model.routing_heads": 4}
    text = {"data.source": "text", "data.text": str(home / "text.txt"), "data.context": 16}
    fields = {name: value for name, value in fields_of(config).items() if name.startswith("train.")}
    job = {"job": {**fields, **own, **text, "train.steps": 8, "train.eval_every": 1}}
    (tmp_path / "next.json").write_text(json.dumps(job))
    assert main([str(tmp_path / "next.json"), "--home", str(home), "--device", "cpu"]) == 0
    told = capsys.readouterr().out.splitlines()
    [first] = [line.split()[-1] for line in told if line.startswith("0/8  validation")]
    plain = replace(config, train=replace(config.train, ema_decay=0.0))
    losses = {e.step: e.loss for e in train(plain, small_data) if isinstance(e, Evaluation)}
    assert first == f"{losses[6]:.4f}"


def test_what_is_no_checkpoint_of_a_job_at_work_is_refused(
    stopped: tuple[JobConfig, Path], small_data: Dataset, tmp_path: Path
) -> None:
    config, checkpoint = stopped
    with pytest.raises(UserError, match=r"step-9\.pt has no statement beside it that tells its job"):
        model_of_checkpoint(checkpoint.with_name("step-9.pt"), tmp_path)
    statement = json.loads(checkpoint.with_suffix(".json").read_text())
    checkpoint.with_suffix(".json").write_text(json.dumps({**statement, "sha256": "00" * 32}))
    with pytest.raises(UserError, match=r"step-00000006\.pt is missing or damaged"):
        model_of_checkpoint(checkpoint, tmp_path)
    checkpoint.with_suffix(".json").write_text(json.dumps(statement))
    list(train(config, small_data, folder=checkpoint.parents[1], execution=Execution()))
    [ended] = checkpoint.parent.glob("step-*.pt")
    with pytest.raises(
        UserError, match=r"is of an ended job and holds no weights; take its model\.safetensors"
    ):
        model_of_checkpoint(ended, tmp_path)

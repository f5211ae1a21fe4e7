"""Jobs that start from a trained model: the pair of treatment and control, and what is refused."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_jobs import SMALL

from headcount.trainer.config import InitConfig, JobConfig, job_from_fields
from headcount.trainer.data import Dataset
from headcount.trainer.errors import FieldError, UserError
from headcount.trainer.events import Evaluation
from headcount.trainer.execution import Execution
from headcount.trainer.initial import load_initial
from headcount.trainer.job_files.model_file import read_model, write_model
from headcount.trainer.job_files.model_header import job_fields, routes
from headcount.trainer.loop import train
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.starting import started_from

Job = Callable[..., JobConfig]


def trained(config: JobConfig, data: Dataset, folder: Path, weights: Path | None = None) -> list[float]:
    """The validation losses; the files lie in `folder`."""
    events = train(config, data, folder=folder, execution=Execution(), weights=weights)
    return [event.loss for event in events if isinstance(event, Evaluation)]


def from_file(config: JobConfig, file: Path) -> JobConfig:
    return replace(config, init=InitConfig(hashlib.sha256(file.read_bytes()).hexdigest()))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, small_data: Dataset) -> Path:
    """A trained additive model."""
    folder = tmp_path_factory.mktemp("base")
    trained(job_from_fields(SMALL, 3), small_data, folder)
    return folder / "model.safetensors"


def test_treatment_and_control_have_the_same_first_step_to_the_last_bit(
    small_job: Job, small_data: Dataset, base: Path, tmp_path: Path
) -> None:
    recipe = {"train__schedule": "one_minus_sqrt", "train__ema_decay": 0.9, "train__z_loss": 1e-4}
    losses, curves = {}, {}
    for residual in ("additive", "delta"):
        config = from_file(
            small_job(
                model__residual=residual, model__routing_heads=4, train__routing_lr_ratio=3.0, **recipe
            ),
            base,
        )
        losses[residual] = trained(config, small_data, tmp_path / residual, base)
        curves[residual] = np.load(tmp_path / residual / "training_loss.npy")
    assert losses["additive"][0] == losses["delta"][0]  # before the first update
    assert curves["additive"][0] == curves["delta"][0]
    assert curves["additive"][-1] != curves["delta"][-1]
    drawn = trained(small_job(), small_data, tmp_path / "drawn")
    assert losses["additive"][0] < drawn[0] - 0.5  # it knows something already


def test_training_goes_on_from_the_very_weights_and_from_a_cold_optimizer(
    small_job: Job, small_data: Dataset, base: Path, tmp_path: Path
) -> None:
    config = from_file(small_job(), base)
    model = Transformer(config.model, config.data.context, seed=0)
    load_initial(model, config, base)
    kept, _ = read_model(base)
    assert all(torch.equal(p, kept[name]) for name, p in model.named_parameters())
    first = trained(config, small_data, tmp_path / "a", base)
    again = trained(config, small_data, tmp_path / "b", base)
    assert first == again


def test_routing_that_is_trained_is_taken_and_never_lost(
    small_job: Job, small_data: Dataset, base: Path, tmp_path: Path
) -> None:
    delta = small_job(model__residual="delta", model__routing_heads=4)
    trained(delta, small_data, tmp_path / "delta")
    file = tmp_path / "delta" / "model.safetensors"
    config = from_file(delta, file)
    model = Transformer(config.model, config.data.context, seed=0)
    load_initial(model, config, file)
    kept, _ = read_model(file)
    assert kept["stream.gates.1"].any()
    untrained = Transformer(config.model, config.data.context, seed=0)
    write_model(tmp_path / "untrained.safetensors", dict(untrained.named_parameters()), {})
    assert (routes(base), routes(tmp_path / "untrained.safetensors"), routes(file)) == (False, False, True)
    assert torch.equal(model.get_parameter("stream.gates.1"), kept["stream.gates.1"])
    plain = from_file(small_job(), file)
    with pytest.raises(UserError, match="of the residual stream delta, which additive would lose"):
        load_initial(Transformer(plain.model, 16, seed=0), plain, file)


def test_what_does_not_fit_is_refused(
    small_job: Job, small_data: Dataset, base: Path, tmp_path: Path
) -> None:
    config = from_file(small_job(), base)
    with pytest.raises(UserError, match=r"init\.weights: no file was given"):
        next(train(config, small_data))
    other = tmp_path / "other.safetensors"
    other.write_bytes(base.read_bytes() + b" ")
    with pytest.raises(UserError, match=r"other\.safetensors is missing or another one"):
        next(train(config, small_data, weights=other))
    wide = from_file(small_job(model__d_ff=32), base)
    with pytest.raises(UserError, match=r"mlp.* is \[24, 16\], the job's is \[32, 16\]"):
        load_initial(Transformer(wide.model, 16, seed=0), wide, base)
    deep = from_file(small_job(model__layers=3), base)
    with pytest.raises(UserError, match=r"lacks blocks\.2"):
        load_initial(Transformer(deep.model, 16, seed=0), deep, base)
    with pytest.raises(FieldError, match=r"init\.weights: got 'abc'; expected a SHA-256"):
        small_job(init__weights="abc")


def test_a_jobs_file_names_the_model_and_takes_its_shape(base: Path) -> None:
    source = job_fields(base)
    fields, file = started_from({"init.from": str(base.parent), "model.residual": "delta"}, Path("/nowhere"))
    assert file == base
    assert fields["model.d_ff"] == source["model.d_ff"] == 24
    assert fields["model.residual"] == "delta"
    assert fields["init.weights"] == hashlib.sha256(base.read_bytes()).hexdigest()
    assert started_from({"train.steps": 8}, Path()) == ({"train.steps": 8}, None)
    with pytest.raises(FieldError, match=r"init.from: no file .*nothing"):
        started_from({"init.from": "nothing"}, Path("/nowhere"))

"""Options of the recipe, through whole jobs: averages of the weights, z-loss, no clipping, schedules."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_jobs import after

from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.evaluation import window_losses
from headcount.trainer.events import Evaluation, Event
from headcount.trainer.loop import train
from headcount.trainer.model.transformer import Transformer

Job = Callable[..., JobConfig]


def losses(events: list[Event]) -> dict[int, float]:
    return {event.step: event.loss for event in events if isinstance(event, Evaluation)}


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def test_the_average_is_what_is_evaluated_and_kept(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    averaged = small_job(train__ema_decay=0.5)
    plain = list(train(small_job(), small_data, folder=tmp_path / "plain"))
    events = list(train(averaged, small_data, folder=tmp_path / "averaged"))
    assert losses(events)[0] == losses(plain)[0]
    assert losses(events)[2] != losses(plain)[2]
    kept = Transformer(averaged.model, 16, seed=0)
    kept.load_state_dict(weights(tmp_path / "averaged"))
    windows = torch.from_numpy(small_data.validation(4, 16))
    evaluated = window_losses(kept, windows, 8)
    assert sum(evaluated) / 4 == pytest.approx(losses(events)[16], rel=1e-6)
    assert not torch.equal(weights(tmp_path / "plain")["embedding"], kept.embedding)


def test_averaging_changes_no_training(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    """After n updates it is (1 − decay) Σ decay^(n−i) w_i + decay^n w_0, of the plain job's weights w."""
    decay, steps = 0.5, 8
    job = {"train__steps": steps, "train__eval_every": 1, "train__schedule": "constant"}
    expected = dict(Transformer(small_job().model, 16, seed=0).named_parameters())["embedding"].detach()
    for n in range(1, steps + 1):
        folder = tmp_path / str(n)
        list(train(small_job(**job), small_data, folder=folder, stop=after(n)))
        if n < steps:
            state = torch.load(next(folder.glob("checkpoints/*.pt")), weights_only=True)["model"]
        else:
            state = weights(folder)
        expected = decay * expected + (1 - decay) * state["embedding"]
    list(train(small_job(**job, train__ema_decay=decay), small_data, folder=tmp_path / "averaged"))
    assert torch.allclose(weights(tmp_path / "averaged")["embedding"], expected, atol=1e-6)


def test_an_averaged_job_that_is_stopped_gives_the_same_bits(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    job = small_job(train__ema_decay=0.9, train__z_loss=1e-2)
    whole = losses(list(train(job, small_data, folder=tmp_path / "whole")))
    for updates in (5, 4):
        list(train(job, small_data, folder=tmp_path / "pieces", stop=after(updates)))
    assert losses(list(train(job, small_data, folder=tmp_path / "pieces"))) == whole
    one, other = weights(tmp_path / "whole"), weights(tmp_path / "pieces")
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_z_loss_draws_the_normaliser_to_one(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    def normalisers(z_loss: float) -> float:
        job = small_job(train__z_loss=z_loss, train__steps=60)
        list(train(job, small_data, folder=tmp_path / str(z_loss)))
        model = Transformer(job.model, 16, seed=0)
        model.load_state_dict(weights(tmp_path / str(z_loss)))
        with torch.no_grad():
            logits = model(torch.from_numpy(small_data.validation(4, 16))[:, :-1])
        return float(logits.logsumexp(-1).square().mean())

    assert normalisers(1.0) < 0.2 * normalisers(0.0)


def test_a_clip_norm_of_zero_is_one_that_is_never_reached(small_job: Job, small_data: Dataset) -> None:
    def trained(clip_norm: float) -> dict[int, float]:
        return losses(list(train(small_job(train__clip_norm=clip_norm), small_data)))

    assert trained(0) == trained(1e6)
    assert trained(0) != trained(0.1)


@pytest.mark.parametrize("schedule", ["linear", "wsd", "constant"])
def test_a_schedule_trains_otherwise_than_the_cosine(
    small_job: Job, small_data: Dataset, schedule: str
) -> None:
    cosine = losses(list(train(small_job(), small_data)))
    other = losses(list(train(small_job(train__schedule=schedule), small_data)))
    assert other[0] == cosine[0]
    assert other[16] != cosine[16]

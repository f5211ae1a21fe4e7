import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_jobs import after

from headcount.trainer import attempt
from headcount.trainer.config import JobConfig, fields_of
from headcount.trainer.data import Dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import (
    Artifact,
    Checkpoint,
    Evaluation,
    Event,
    Progress,
    Result,
    Routing,
    Started,
)
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train
from headcount.trainer.model.transformer import Transformer

Job = Callable[..., JobConfig]

ROUTED = {"model__residual": "mhar", "model__routing_heads": 4}


def evaluations(events: list[Event]) -> list[Evaluation]:
    return [event for event in events if isinstance(event, Evaluation)]


def result(events: list[Event]) -> Result:
    assert isinstance(events[-1], Result)
    return events[-1]


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)


def test_the_events_of_a_job(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    config = small_job(**ROUTED)
    events = list(train(config, small_data, folder=tmp_path))
    kinds = [type(event) for event in events if not isinstance(event, Progress)]
    assert kinds == [Started, *[Evaluation, Routing] * 9, *[Artifact] * 3, Checkpoint, Result]
    assert isinstance(events[0], Started)
    assert events[0].step == 0
    assert events[0].environment["threads"] == 1
    assert events[0].environment["micro_batch"] == 8
    told = evaluations(events)
    assert [e.step for e in told] == [0, 2, 4, 6, 8, 10, 12, 14, 16]
    assert [len(e.window_losses) for e in told] == [0] * 6 + [4] * 3
    assert all(e.loss == pytest.approx(sum(e.window_losses) / 4, abs=1e-12) for e in told[-3:])
    end = result(events)
    assert (end.outcome, end.step) == ("finished", 16)
    assert end.tail_mean == pytest.approx(sum(e.loss for e in told[-3:]) / 3, abs=1e-12)
    assert end.measurements.keys() == {
        *("tokens_per_second", "step_seconds", "first_update_seconds", "seconds"),
        *("peak_memory_bytes", "parameters", "bits_per_byte", "recovered_spikes", "routing_entropy"),
    }
    assert 0 < end.measurements["seconds"] < 60
    assert end.measurements["step_seconds"] * end.measurements["tokens_per_second"] == pytest.approx(128)
    per_byte = small_data.manifest.bytes_per_token
    assert end.tail_mean == pytest.approx(end.measurements["bits_per_byte"] * math.log(2) * per_byte)
    assert end.measurements["peak_memory_bytes"] > 1e7


def test_a_micro_batch_is_told_as_it_is_taken(small_job: Job, small_data: Dataset) -> None:
    asked = Execution(micro_batch=100)
    assert next(train(small_job(), small_data, execution=asked)).environment["micro_batch"] == 8


def test_a_job_learns(small_job: Job, small_data: Dataset) -> None:
    events = list(train(small_job(**ROUTED, train__steps=60), small_data))
    losses = [e.loss for e in evaluations(events)]
    assert losses[0] == pytest.approx(math.log(256), abs=0.1)
    assert losses[-1] < 3.0


def test_progress_is_told_about_once_a_second(
    small_job: Job, small_data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "PROGRESS_SECONDS", 0.0)
    events = list(train(small_job(), small_data))
    told = [event for event in events if isinstance(event, Progress)]
    assert [p.step for p in told] == list(range(1, 17))
    assert told[-1].learning_rate == pytest.approx(1e-3)
    assert all(math.isfinite(p.loss) and p.gradient_norm > 0 and p.tokens_per_second > 0 for p in told)


@pytest.mark.parametrize("micro_batch", [1, 3])
def test_a_step_has_one_gradient_whatever_its_micro_batch(
    small_job: Job, small_data: Dataset, micro_batch: int
) -> None:
    config = small_job(**ROUTED, model__query_init="normal")
    windows = torch.from_numpy(small_data.batch(seed=0, step=0, windows=8, context=16))

    def gradient(size: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        model = Transformer(config.model, 16, seed=0)
        parts = torch.split(windows, size)
        loss = torch.stack([model.add_gradient(part, windows[:, 1:].numel()) for part in parts]).sum()
        return loss, [p.grad for p in model.parameters() if p.grad is not None]

    (whole_loss, whole), (loss, parts) = gradient(8), gradient(micro_batch)
    assert torch.allclose(loss, whole_loss, rtol=1e-6, atol=0)
    assert len(whole) == len(parts)
    for one, other in zip(whole, parts, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-7)


def test_two_attempts_give_the_same_bits_also_after_other_jobs(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    config = small_job(**ROUTED)
    first = list(train(config, small_data, folder=tmp_path / "first"))
    list(train(small_job(model__d_model=32, train__batch_tokens=16 * 5), small_data))
    torch.rand(17)
    second = list(train(config, small_data, folder=tmp_path / "second"))
    assert evaluations(first) == evaluations(second)
    assert same(final_weights(tmp_path / "first"), final_weights(tmp_path / "second"))


def test_evaluating_does_not_change_training(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    every = small_job(**ROUTED, train__eval_every=1, train__eval_windows=7)
    never = replace(every, train=replace(every.train, eval_every=every.train.steps))
    list(train(every, small_data, folder=tmp_path / "every"))
    list(train(never, small_data, folder=tmp_path / "never"))
    assert same(final_weights(tmp_path / "every"), final_weights(tmp_path / "never"))


@pytest.mark.parametrize("seed", range(3))
def test_a_job_stopped_at_random_steps_gives_the_same_bits(
    small_job: Job, small_data: Dataset, tmp_path: Path, seed: int
) -> None:
    config = small_job(**ROUTED)
    whole = list(train(config, small_data, folder=tmp_path / "whole"))
    drawn, pieces = random.Random(seed), tmp_path / "pieces"
    events: list[Event] = []
    while not (events and isinstance(events[-1], Result)):
        began_at = events[-1].step if events else 0
        events = list(train(config, small_data, folder=pieces, stop=after(drawn.randint(1, 6))))
        assert isinstance(events[0], Started)
        assert events[0].step == began_at
    assert evaluations(events) == evaluations(whole)  # those before the last piece are told again
    assert result(events).tail_mean == result(whole).tail_mean
    assert same(final_weights(pieces), final_weights(tmp_path / "whole"))


def test_a_job_killed_at_random_moments_gives_the_same_bits(
    small_job: Job, small_data: Dataset, tmp_path: Path
) -> None:
    config = small_job(**ROUTED, train__steps=60, train__eval_every=6)
    whole = list(train(config, small_data, folder=tmp_path / "whole"))
    home = small_data.folder.parents[1]
    code = f"""
from pathlib import Path
from headcount.trainer.config import job_from_fields
from headcount.trainer.data import open_dataset
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train
dataset = open_dataset({small_data.manifest.fingerprint!r}, Path({str(home)!r}))
for event in train(job_from_fields({fields_of(config)!r}), dataset, folder=Path({str(tmp_path / "killed")!r}),
                   execution=Execution(checkpoint_seconds=0)):
    print(type(event).__name__, event.step, flush=True)
"""
    drawn = random.Random(0)
    reached = []
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        target = drawn.randint(5, 15)
        for line in process.stdout:
            if line.startswith("Checkpoint") and (target := target - 1) == 0:
                time.sleep(drawn.uniform(0, 0.02))
                process.kill()
        process.communicate()
        reached.append(process.returncode)
    assert reached == [-9, -9]
    events = list(train(config, small_data, folder=tmp_path / "killed"))
    assert isinstance(events[0], Started)
    assert events[0].step >= 10
    assert evaluations(events) == evaluations(whole)
    assert same(final_weights(tmp_path / "killed"), final_weights(tmp_path / "whole"))


def test_a_finished_job_only_tells_again(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    config = small_job()
    first = list(train(config, small_data, folder=tmp_path))
    again = list(train(config, small_data, folder=tmp_path))
    assert [type(event) for event in again] == [Started, *[Evaluation] * 9, *[Artifact] * 2, Result]
    assert again[1:] == [e for e in first if isinstance(e, Evaluation | Artifact | Result)]


def test_a_stopped_job_keeps_what_it_did(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    events = list(train(small_job(), small_data, folder=tmp_path, stop=after(5)))
    assert isinstance(events[-1], Checkpoint)
    assert events[-1].step == 5
    at_once = list(train(small_job(), small_data, folder=tmp_path / "other", stop=lambda: True))
    assert [type(event) for event in at_once] == [Started, Evaluation]


@pytest.mark.parametrize("unread", [1, 64])
def test_a_loss_that_is_not_finite_ends_the_job_as_diverged(
    small_job: Job, small_data: Dataset, monkeypatch: pytest.MonkeyPatch, unread: int
) -> None:
    monkeypatch.setattr(attempt, "MOST_UNREAD", unread)
    config = small_job(train__peak_lr=1e30, train__steps=40, train__eval_every=5)
    events = list(train(config, small_data))
    end = result(events)
    assert (end.outcome, end.step, end.tail_mean) == ("diverged", 3, None)
    assert [e.step for e in evaluations(events)] == [0]


def test_divergence_found_on_stopping_is_not_lost(small_job: Job, small_data: Dataset) -> None:
    config = small_job(train__peak_lr=1e30, train__steps=40, train__eval_every=5)
    assert result(list(train(config, small_data, stop=after(4)))).outcome == "diverged"


def test_global_settings_are_the_callers_between_events(small_job: Job, small_data: Dataset) -> None:
    def settings() -> tuple[object, ...]:
        return (
            torch.get_num_threads(),
            torch.are_deterministic_algorithms_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
            torch.get_float32_matmul_precision(),
        )

    before = settings()
    inside: list[tuple[object, ...]] = []

    def stop() -> bool:
        inside.append(settings())
        return len(inside) == 3

    events: Iterator[Event] = train(small_job(), small_data, execution=Execution(threads=2), stop=stop)
    for _ in events:
        assert settings() == before
    assert set(inside) == {(2, True, False, "highest")}
    unfinished = train(small_job(), small_data)
    next(unfinished)
    unfinished.close()  # type: ignore[attr-defined]
    assert settings() == before


def test_half_precision_trains(small_job: Job, small_data: Dataset) -> None:
    exact = result(list(train(small_job(**ROUTED), small_data)))
    half = result(list(train(small_job(**ROUTED, train__precision="bf16"), small_data)))
    assert half.tail_mean == pytest.approx(exact.tail_mean, abs=0.05)
    assert half.tail_mean != exact.tail_mean


def test_data_that_does_not_fit_the_job(small_job: Job, small_data: Dataset) -> None:
    with pytest.raises(
        UserError, match=r"model\.vocab_size: 100 is less than the 256 tokens of the data set text"
    ):
        next(train(small_job(model__vocab_size=100), small_data))
    with pytest.raises(
        UserError, match=r"data\.context: a window of 8192 needs 8193 tokens, and the data set"
    ):
        next(train(small_job(data__context=8192, train__batch_tokens=8192), small_data))


def test_a_checkpoint_of_another_job_is_refused(small_job: Job, small_data: Dataset, tmp_path: Path) -> None:
    list(train(small_job(), small_data, folder=tmp_path))
    with pytest.raises(
        UserError, match=r"step-00000016\.pt is a checkpoint of another job: its seed is 0, this"
    ):
        next(train(small_job(seed=1), small_data, folder=tmp_path))
    with pytest.raises(UserError, match=r"its train\.peak_lr is 0\.01, this job's is 0\.02"):
        next(train(small_job(train__peak_lr=0.02), small_data, folder=tmp_path))
    with pytest.raises(UserError, match=r"its model\.residual is the default, this job's is mhar"):
        next(train(small_job(**ROUTED), small_data, folder=tmp_path))
    unread = small_job(model__routing_heads=8)  # which the additive stream does not read
    assert next(train(unread, small_data, folder=tmp_path)).step == 16

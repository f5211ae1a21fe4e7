"""What `trainer.bench.training` times: updates of a job, and how soon a second job is under way."""

import gc
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from headcount.trainer.config import DataConfig, JobConfig
from headcount.trainer.data import Dataset, open_dataset, prepare
from headcount.trainer.device import choose_device, peak_memory_bytes, reset_peak_memory
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution, batch_windows
from headcount.trainer.flops import flops_per_token, peak_flops
from headcount.trainer.initial import start_model
from headcount.trainer.loop import train
from headcount.trainer.step import updater_for
from headcount.trainer.team.leader import Team

WARM_UP = 2
"""Updates before those that are timed."""


@dataclass(frozen=True)
class Row:
    """The median of a job's updates."""

    scale: str
    form: str
    """`exact`, `fast` (not the same bits again), `2 GPUs` (exact), or the name of a peer."""
    micro_batch: int
    milliseconds: float
    """Of one update: all its passes and the optimizer."""
    tokens_per_second: float
    mfu: float | None
    """None where the hardware's peak is not known."""
    peak_bytes: float
    """Allocated on the GPU; on the CPU, of the process."""
    reserved_bytes: float
    """What the GPU's allocator took for that, its graphs' pools among it; 0 on the CPU."""


def measure(scale: str, form: str, config: JobConfig, execution: Execution, updates: int) -> Row:
    """A row of ours. `execution` gives the micro-batch; of several GPUs, the first one's memory is told."""
    micro_batch = execution.micro_batch
    assert micro_batch is not None
    device = choose_device(config, execution)
    reset_memory(device)
    with exact_mode(execution), ExitStack() as ending:
        team = None
        if execution.gpus > 1:
            home = ending.enter_context(tempfile.TemporaryDirectory())
            team = Team(config, _some_text(config, Path(home)), None, execution, micro_batch, device)
            ending.callback(team.close)
        updater = updater_for(start_model(config, device), config, execution, micro_batch)
        windows, rate = random_windows(config), config.train.peak_lr
        if team is not None:
            team.join()

        def update() -> Tensor:
            own = windows if team is None else team.begin_update(0, rate, windows)
            return updater.update(own, rate)[0]

        seconds = timed(update, updates)
    flops = flops_per_token(config) / execution.gpus
    return row_of(scale, form, config, micro_batch, seconds, flops, device)


def random_windows(config: JobConfig) -> Tensor:
    """Tokens of one update, on the CPU: [windows, context + 1]."""
    generator = torch.Generator().manual_seed(0)
    shape = (batch_windows(config), config.data.context + 1)
    return torch.randint(config.model.vocab_size, shape, generator=generator)


def timed(update: Callable[[], Tensor], updates: int) -> float:
    """Median seconds of `update`, up to its loss being read."""
    seconds = []
    for _ in range(WARM_UP + updates):
        began = time.perf_counter()
        update().item()
        seconds.append(time.perf_counter() - began)
    return median(seconds[WARM_UP:])


def row_of(
    scale: str,
    form: str,
    config: JobConfig,
    micro_batch: int,
    seconds: float,
    flops: float,
    device: torch.device,
) -> Row:
    """`flops`: of one token on each GPU, forward and backward."""
    on_gpu = device.type == "cuda"
    rate = config.train.batch_tokens / seconds
    peak = peak_flops(torch.cuda.get_device_name(device)) if on_gpu else None
    return Row(
        scale,
        form,
        micro_batch,
        seconds * 1e3,
        rate,
        flops * rate / peak if peak else None,
        peak_memory_bytes(device),
        float(torch.cuda.max_memory_reserved(device)) if on_gpu else 0.0,
    )


def reset_memory(device: torch.device) -> None:
    """Give back what the row before held, and count peaks from here on."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    reset_peak_memory(device)


def second_job_seconds(config: JobConfig) -> dict[str, float]:
    """From the call of `train` to the end of the first update, evaluation before it included, in a process
    that has begun a job of this shape before: for another learning rate, and for another seed, whose weights
    are drawn anew."""
    other_rate = replace(config, train=replace(config.train, peak_lr=5e-4))
    with tempfile.TemporaryDirectory() as folder:
        dataset = _some_text(config, Path(folder))
        _seconds_to_first_update(config, dataset)
        return {
            "another rate": _seconds_to_first_update(other_rate, dataset),
            "another seed": _seconds_to_first_update(replace(config, seed=config.seed + 1), dataset),
        }


def _seconds_to_first_update(config: JobConfig, dataset: Dataset) -> float:
    reset_memory(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    asked: list[float] = []  # before each update; the one before has ended by then

    def stop() -> bool:
        asked.append(time.perf_counter())
        return len(asked) == 2

    began = time.perf_counter()
    for _ in train(config, dataset, stop=stop):
        pass
    return asked[1] - began


def _some_text(config: JobConfig, home: Path) -> Dataset:
    """Words at random, enough for an update and its validation windows."""
    words = random.Random(0).choices(["a", "job", "of", "depth", "routing", "reads", "words"], k=1_000_000)
    text = home / "text.txt"
    text.write_text(" ".join(words), encoding="utf-8")
    source = DataConfig(context=config.data.context, source="text", text=(str(text),))
    return open_dataset(prepare(source, home).fingerprint, home)

"""The exact mode on a GPU: `pytest -m gpu` on a machine that has one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from small_jobs import after

from headcount.trainer.config import JobConfig
from headcount.trainer.data import Dataset
from headcount.trainer.errors import UserError
from headcount.trainer.events import Evaluation, Event, Started
from headcount.trainer.execution import Execution
from headcount.trainer.loop import train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.filterwarnings("default"),  # the compiler sets off some of its own
]


def losses(events: list[Event]) -> list[tuple[int, float]]:
    return [(event.step, event.loss) for event in events if isinstance(event, Evaluation)]


@pytest.mark.parametrize(("precision", "context"), [("fp32", 16), ("bf16", 16), ("bf16", 128)])
@pytest.mark.parametrize("residual", ["additive", "mhar"])
def test_a_job_gives_the_same_bits_again_and_after_a_stop(
    small_job: Callable[..., JobConfig],
    small_data: Dataset,
    tmp_path: Path,
    residual: str,
    precision: str,
    context: int,
) -> None:
    config = small_job(
        data__context=context,
        train__batch_tokens=8 * context,
        model__d_model=64,
        model__residual=residual,
        model__routing_heads=4,
        model__query_init="normal",
        train__precision=precision,
    )
    on_gpu = Execution(device="cuda")
    whole = losses(list(train(config, small_data, execution=on_gpu)))
    assert losses(list(train(config, small_data, execution=on_gpu))) == whole
    list(train(config, small_data, folder=tmp_path, execution=on_gpu, stop=after(7)))
    assert losses(list(train(config, small_data, folder=tmp_path, execution=on_gpu))) == whole


def test_gpu_and_cpu_agree_to_rounding(small_job: Callable[..., JobConfig], small_data: Dataset) -> None:
    config = small_job(model__residual="mhar", model__routing_heads=4)
    (_, on_gpu), *_ = losses(list(train(config, small_data, execution=Execution(device="cuda"))))
    (_, on_cpu), *_ = losses(list(train(config, small_data, execution=Execution(device="cpu"))))
    assert on_gpu == pytest.approx(on_cpu, abs=1e-4)


@pytest.mark.parametrize("residual", ["additive", "mhar"])
def test_graphs_give_the_bits_of_the_same_work_launched_one_by_one(
    small_job: Callable[..., JobConfig], small_data: Dataset, residual: str
) -> None:
    config = small_job(model__d_model=64, model__residual=residual, train__precision="bf16")
    told = {}
    for graphs in (True, False):
        execution = Execution(device="cuda", graphs=graphs, micro_batch=3)  # 3 + 3 + 2 windows
        events = list(train(config, small_data, execution=execution))
        assert isinstance(events[0], Started)
        assert events[0].environment["graphs"] is graphs
        told[graphs] = losses(events)
    assert told[True] == told[False]


def test_another_rate_or_seed_compiles_nothing(
    small_job: Callable[..., JobConfig], small_data: Dataset
) -> None:
    from torch._dynamo.utils import counters

    def graphs_made(seed: int, rate: float) -> int:
        config = small_job(seed, model__d_model=64, train__precision="bf16", train__peak_lr=rate)
        list(train(config, small_data, execution=Execution(device="cuda")))
        return counters["stats"]["unique_graphs"]

    first = graphs_made(0, 1e-2)
    assert first > 0
    assert graphs_made(1, 1e-3) == first


def test_heads_that_flash_does_not_take_are_refused(
    small_job: Callable[..., JobConfig], small_data: Dataset
) -> None:
    config = small_job(
        model__d_model=1024, model__heads=2, model__kv_heads=1, train__precision="bf16"
    )  # of width 512
    with pytest.raises(UserError, match=r"flash attention cannot run on cuda:0 with 2 heads of width 512"):
        list(train(config, small_data, execution=Execution(device="cuda")))

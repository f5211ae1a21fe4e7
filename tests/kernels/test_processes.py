"""Several processes and several GPUs."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from headcount.kernels import DepthHistory

pytestmark = pytest.mark.gpu
WIDTH, HEADS, SITES = 96, 2, 12


def parameters(device: torch.device | str = "cuda") -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(SITES, WIDTH, generator=generator).to(device).requires_grad_()
    return queries, torch.ones(SITES, WIDTH, device=device).requires_grad_()


class Routed(torch.nn.Module):
    """Depth routing over fixed functions of its input, so that all it learns is routing's."""

    def __init__(self, device: torch.device | str) -> None:
        super().__init__()
        self.queries, self.key_weights = map(torch.nn.Parameter, parameters(device))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        history = DepthHistory(self.queries, self.key_weights, HEADS, implementation="two_phase")
        history.write(x)
        for site in range(SITES - 1):
            history.write(torch.sin((site + 1) * history.read()))
        return history.finish().float().square().mean()


def inputs(rows: int) -> torch.Tensor:
    return torch.randn(rows, WIDTH, generator=torch.Generator().manual_seed(1)).bfloat16()


def gradient_with_cache(cache: str) -> list[float]:
    os.environ["TRITON_CACHE_DIR"] = cache
    model = Routed("cuda")
    model(inputs(40).cuda()).backward()
    total: list[float] = model.queries.grad.flatten().tolist()
    return total


def rank_gradient(rank: int, store: str) -> list[float]:
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl", store=torch.distributed.FileStore(store, 2), rank=rank, world_size=2
    )
    model = Routed(f"cuda:{rank}")
    parallel = torch.nn.parallel.DistributedDataParallel(model, [rank])  # its hooks go when it goes
    parallel(inputs(40)[rank::2].to(rank)).backward()
    total: list[float] = model.queries.grad.flatten().tolist()
    torch.distributed.destroy_process_group()
    return total


def in_processes(work: Callable[..., list[float]], arguments: list[tuple[object, ...]]) -> list[list[float]]:
    with multiprocessing.get_context("spawn").Pool(len(arguments)) as pool:
        return pool.starmap(work, arguments, chunksize=1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_processes_that_fill_one_empty_kernel_cache_agree_bit_by_bit(tmp_path: Path):
    results = in_processes(gradient_with_cache, [(str(tmp_path),)] * 4)
    assert all(result == results[0] for result in results)
    assert any(results[0])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_two_gpus_train_as_one(tmp_path: Path):
    both = in_processes(rank_gradient, [(rank, str(tmp_path / "store")) for rank in range(2)])
    model = Routed("cuda")
    model(inputs(40).cuda()).backward()
    assert both[0] == both[1]
    torch.testing.assert_close(
        torch.tensor(both[0]), model.queries.grad.flatten().cpu(), rtol=2e-2, atol=1e-4
    )

"""What launching a kernel takes: its device, addresses of tensors, sums of what programs left, and one site's
backward.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import triton
from torch import Tensor

from headcount.kernels.launch import site_launch_for
from headcount.kernels.site_kernels import ADDRESSES, site_backward_kernel, table_kernel
from headcount.kernels.sum_kernel import COLUMNS, sum_kernel
from headcount.kernels.tiles import Tiles


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launch on the tensor's GPU, whichever is current."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def aligned(tensor: Tensor) -> Tensor:
    """Contiguous and on a 16-byte address, copied only where it is not: kernels given an address assume
    both.
    """
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


def table_of(sources: Sequence[Tensor]) -> Tensor:
    """The addresses of aligned tensors, on their device, written there by kernels that take them as
    arguments.
    """
    table = torch.empty(len(sources), dtype=torch.int64, device=sources[0].device)
    addresses = [source.data_ptr() for source in sources]
    with on_device(table):
        for first in range(0, len(addresses), ADDRESSES):
            some = addresses[first : first + ADDRESSES]
            some += some[:1] * (ADDRESSES - len(some))
            table_kernel[(1,)](table, first, len(addresses), *some, num_warps=1)
    return table


def sum_of_programs(parts: Tensor, total: Tensor) -> Tensor:
    """Add up parts [programs, ...] float32 into the contiguous `total` [...], of any dtype."""
    columns = total.numel()
    with on_device(parts):
        sum_kernel[(triton.cdiv(columns, COLUMNS),)](
            parts, total, len(parts), columns, ROWS=256, COLUMNS=COLUMNS, num_warps=8
        )
    return total


def launch_site_backward(
    table: Tensor,
    num_sources: int,
    query: Tensor,
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    grad_sources: Tensor,
    eps: float,
    accumulate: bool,
) -> Tensor:
    """One site's backward: write or add the gradients of its sources [N, T, d], return the query's [d]."""
    (width,), (tokens, heads) = query.shape, lse.shape
    tiles = Tiles.of(width, heads)
    launch = site_launch_for(tiles)
    programs = triton.cdiv(tokens, launch.backward_tokens)
    of_query = torch.empty(programs, width, dtype=torch.float32, device=grad.device)
    with on_device(grad):
        site_backward_kernel[(programs,)](
            table,
            query,
            grad,
            out,
            lse,
            grad_sources,
            of_query,
            tokens,
            num_sources,
            eps,
            TILES=tiles,
            TOKENS=launch.backward_tokens,
            STAGES=launch.backward_stages,
            ACCUMULATE=accumulate,
            num_warps=launch.backward_warps,
        )
    return sum_of_programs(of_query, torch.empty_like(of_query[0]))

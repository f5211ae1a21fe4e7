"""The `fused` implementation: one site in one kernel, as a PyTorch operator over a list of sources.

The operators have fakes and a registered backward, so they trace under torch.compile and capture in CUDA
graphs.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch._dynamo  # else the first call of an operator does, in seconds, and leaks that call's tensors
import triton
from torch import Tensor

from headcount.kernels.launch import site_launch_for
from headcount.kernels.site_kernels import ADDRESSES, site_backward_kernel, site_forward_kernel, table_kernel
from headcount.kernels.tiles import Tiles


def route_fused(sources: Sequence[Tensor], folded: Tensor, heads: int, eps: float) -> Tensor:
    """One site's read; `folded` [d] float32 is query · key weight · logit scale. Arguments are not
    checked.
    """
    out, _ = torch.ops.headcount.route(list(sources), folded, heads, eps)
    mixed: Tensor = out
    return mixed


def on_device(tensor: Tensor) -> AbstractContextManager[Any]:
    """Launch on the tensor's GPU, whichever is current."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()


def aligned(tensor: Tensor) -> Tensor:
    """Contiguous and on a 16-byte address, copied only where it is not: kernels given an address assume
    both.
    """
    tensor = tensor.contiguous()
    return tensor if tensor.data_ptr() % 16 == 0 else tensor.clone()


@torch.library.custom_op("headcount::route", mutates_args=())
def _route(sources: list[Tensor], folded: Tensor, heads: int, eps: float) -> tuple[Tensor, Tensor]:
    first = sources[0]
    width = first.shape[-1]
    tokens = first.numel() // width
    tiles = Tiles.of(width, heads)
    launch = site_launch_for(tiles)
    out = torch.empty(first.shape, dtype=first.dtype, device=first.device)
    lse = torch.empty(tokens, heads, dtype=torch.float32, device=first.device)
    if tokens:
        kept = [aligned(source) for source in sources]
        with on_device(first):
            site_forward_kernel[(tokens,)](
                table_of(kept),
                folded.to(first.dtype),
                out,
                lse,
                len(sources),
                eps,
                **tiles._asdict(),
                STAGES=launch.forward_stages,
                num_warps=launch.forward_warps,
            )
    return out, lse


@_route.register_fake
def _(sources: list[Tensor], folded: Tensor, heads: int, eps: float) -> tuple[Tensor, Tensor]:
    first = sources[0]
    tokens = first.numel() // first.shape[-1]
    return (
        torch.empty(first.shape, dtype=first.dtype, device=first.device),
        torch.empty(tokens, heads, dtype=torch.float32, device=first.device),
    )


@torch.library.custom_op("headcount::route_backward", mutates_args=())
def _route_backward(
    grad: Tensor, sources: list[Tensor], folded: Tensor, out: Tensor, lse: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of all sources [N, ..., d] and of the folded query [d]."""
    first = sources[0]
    (width,), tokens = folded.shape, lse.shape[0]
    grad_sources = torch.empty(len(sources), *first.shape, dtype=first.dtype, device=first.device)
    if tokens == 0:
        return grad_sources, torch.zeros_like(folded)
    kept = [aligned(source) for source in sources]
    total = launch_site_backward(
        table_of(kept),
        len(sources),
        folded.to(first.dtype),
        grad.reshape(tokens, width).contiguous(),
        out,
        lse,
        grad_sources,
        eps,
        accumulate=False,
    )
    # one source has weight 1 whatever the query: exactly zero, where the kernel would leave rounding
    return grad_sources, total if len(sources) > 1 else torch.zeros_like(folded)


@_route_backward.register_fake
def _(
    grad: Tensor, sources: list[Tensor], folded: Tensor, out: Tensor, lse: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    first = sources[0]
    return (
        torch.empty(len(sources), *first.shape, dtype=first.dtype, device=first.device),
        torch.empty(folded.shape, dtype=torch.float32, device=first.device),
    )


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    sources, folded, _, ctx.eps = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(folded, *output, *sources)


def _backward(ctx: Any, grad: Tensor, _: None) -> tuple[Any, ...]:
    folded, out, lse, *sources = ctx.saved_tensors
    grad_sources, grad_folded = torch.ops.headcount.route_backward(grad, sources, folded, out, lse, ctx.eps)
    return list(grad_sources.unbind(0)), grad_folded, None, None


_route.register_autograd(_backward, setup_context=_keep_for_backward)


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
            **tiles._asdict(),
            TOKENS=launch.backward_tokens,
            STAGES=launch.backward_stages,
            ACCUMULATE=accumulate,
            num_warps=launch.backward_warps,
        )
    return of_query.sum(0)


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

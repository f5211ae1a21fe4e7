"""The `fused` implementation: one site in one kernel, as a PyTorch operator over a list of sources.

The operators have fakes and a registered backward, so they trace under torch.compile and capture in CUDA
graphs.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch._dynamo  # else the first call of an operator does, in seconds, and leaks that call's tensors
from torch import Tensor

from headcount.kernels.launch import site_launch_for
from headcount.kernels.launching import aligned, launch_site_backward, on_device, table_of
from headcount.kernels.site_kernels import site_forward_kernel
from headcount.kernels.tiles import Tiles


def route_fused(sources: Sequence[Tensor], folded: Tensor, heads: int, eps: float) -> Tensor:
    """One site's read; `folded` [d] float32 is query · key weight · logit scale. Arguments are not
    checked.
    """
    out, _ = torch.ops.headcount.route(list(sources), folded, heads, eps)
    mixed: Tensor = out
    return mixed


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
                TILES=tiles,
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


def gradients_like(
    grad: Tensor, sources: list[Tensor], folded: Tensor, out: Tensor, lse: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """A fake backward: of what shapes the gradients are."""
    first = sources[0]
    return (
        torch.empty(len(sources), *first.shape, dtype=first.dtype, device=first.device),
        torch.empty(folded.shape, dtype=torch.float32, device=first.device),
    )


def refuse_second_derivative(ctx: Any, *gradients: Tensor) -> None:
    raise RuntimeError("depth routing has first derivatives only: differentiate it without create_graph")


_route_backward.register_fake(gradients_like)
_route_backward.register_autograd(refuse_second_derivative)


def keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    sources, folded, *_, ctx.eps = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(folded, *output, *sources)


def _backward(ctx: Any, grad: Tensor, _: None) -> tuple[Any, ...]:
    folded, out, lse, *sources = ctx.saved_tensors
    grad_sources, grad_folded = torch.ops.headcount.route_backward(grad, sources, folded, out, lse, ctx.eps)
    return list(grad_sources.unbind(0)), grad_folded, None, None


_route.register_autograd(_backward, setup_context=keep_for_backward)

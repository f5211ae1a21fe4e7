"""One site's read for each of several groups, over the full width: what each KV group of attention reads
in MHAR-HW.
"""

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor

from headcount.kernels.fused import gradients_like, keep_for_backward, refuse_second_derivative
from headcount.kernels.group_kernels import group_backward_kernel, group_forward_kernel
from headcount.kernels.launching import aligned, on_device, sum_of_programs, table_of

LARGEST_TILE = 16384  # groups · width, padded: more does not fit in a program's registers
BACKWARD_TOKENS = 4


def fits(groups: int, width: int) -> bool:
    """Whether the kernels can hold that many groups of this width."""
    return bool(triton.next_power_of_2(groups) * triton.next_power_of_2(width) <= LARGEST_TILE)


def route_groups_fused(sources: Sequence[Tensor], folded: Tensor, eps: float) -> Tensor:
    """Reads [..., G, d]; `folded` [G, d] float32 is query · key weight · logit scale. Arguments are not
    checked.
    """
    out, _ = torch.ops.headcount.route_groups(list(sources), folded, eps)
    mixed: Tensor = out
    return mixed


def _constants(groups: int, width: int) -> dict[str, int]:
    padded = triton.next_power_of_2(groups), triton.next_power_of_2(width)
    warps = 4 if padded[0] * padded[1] <= 8192 else 8  # 8 take three times as long backward at 8 · 1024
    return {"G": groups, "D": width, "GP": padded[0], "BD": padded[1], "STAGES": 3, "num_warps": warps}


@torch.library.custom_op("headcount::route_groups", mutates_args=())
def _route_groups(sources: list[Tensor], folded: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    first = sources[0]
    groups, width = folded.shape
    tokens = first.numel() // width
    out = torch.empty(*first.shape[:-1], groups, width, dtype=first.dtype, device=first.device)
    lse = torch.empty(tokens, groups, dtype=torch.float32, device=first.device)
    if tokens:
        kept = [aligned(source) for source in sources]
        with on_device(first):
            group_forward_kernel[(tokens,)](
                table_of(kept),
                folded.to(first.dtype),
                out,
                lse,
                len(sources),
                eps,
                **_constants(groups, width),
            )
    return out, lse


@_route_groups.register_fake
def _(sources: list[Tensor], folded: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    first = sources[0]
    groups, width = folded.shape
    tokens = first.numel() // width
    return (
        torch.empty(*first.shape[:-1], groups, width, dtype=first.dtype, device=first.device),
        torch.empty(tokens, groups, dtype=torch.float32, device=first.device),
    )


@torch.library.custom_op("headcount::route_groups_backward", mutates_args=())
def _route_groups_backward(
    grad: Tensor, sources: list[Tensor], folded: Tensor, out: Tensor, lse: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """Gradients of all sources [N, ..., d] and of the folded queries [G, d]."""
    first = sources[0]
    groups, width = folded.shape
    tokens = lse.shape[0]
    grad_sources = torch.empty(len(sources), *first.shape, dtype=first.dtype, device=first.device)
    if tokens == 0:
        return grad_sources, torch.zeros_like(folded)
    programs = triton.cdiv(tokens, BACKWARD_TOKENS)
    grad_folded = torch.empty(programs, groups, width, dtype=torch.float32, device=first.device)
    kept = [aligned(source) for source in sources]
    with on_device(first):
        group_backward_kernel[(programs,)](
            table_of(kept),
            folded.to(first.dtype),
            grad.contiguous(),
            out,
            lse,
            grad_sources,
            grad_folded,
            tokens,
            len(sources),
            eps,
            TOKENS=BACKWARD_TOKENS,
            **_constants(groups, width),
        )
    # one source has weight 1 whatever the query: exactly zero, where the kernel would leave rounding
    if len(sources) == 1:
        return grad_sources, torch.zeros_like(folded)
    return grad_sources, sum_of_programs(grad_folded, torch.empty_like(folded))


_route_groups_backward.register_fake(gradients_like)
_route_groups_backward.register_autograd(refuse_second_derivative)


def _backward(ctx: Any, grad: Tensor, _: None) -> tuple[Any, ...]:
    folded, out, lse, *sources = ctx.saved_tensors
    grad_sources, grad_folded = torch.ops.headcount.route_groups_backward(
        grad, sources, folded, out, lse, ctx.eps
    )
    return list(grad_sources.unbind(0)), grad_folded, None


_route_groups.register_autograd(_backward, setup_context=keep_for_backward)

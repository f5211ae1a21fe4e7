"""Depth routing, defined: the plain PyTorch that every faster form is compared with."""

from collections.abc import Sequence

import torch
from torch import Tensor


def routing_weights(
    sources: Sequence[Tensor],
    query: Tensor,
    key_weight: Tensor,
    heads: int,
    *,
    eps: float = 1e-6,
    logit_scale: float = 1.0,
) -> Tensor:
    """Softmax over depth for each token and head: [N, ..., heads], summing to 1 over the first dimension.

    With d the width, the keys are k_n = key_weight · v_n / rms(v_n), where rms(v)² = |v|²/d + eps over the
    *full* width. Query and keys are cut into `heads` contiguous slices, and head h scores source n by
    logit_scale · <query_h, k_nh>, with no other scale (Attention Residuals, arXiv 2603.15031, eq. 2–4, is
    this with one head).

    Everything is float32 inside, float64 for float64 sources, and the weights are returned so.
    """
    check_arguments(sources, query, key_weight, heads)
    exact = exact_dtype(sources[0].dtype)
    values = torch.stack([source.to(exact) for source in sources])
    keys = values * torch.rsqrt(values.square().mean(-1, keepdim=True) + eps) * key_weight.to(exact)
    logits = _by_head(keys * query.to(exact), heads).sum(-1) * logit_scale
    return torch.softmax(logits, dim=0)


def route_by_definition(
    sources: Sequence[Tensor],
    query: Tensor,
    key_weight: Tensor,
    heads: int,
    *,
    eps: float = 1e-6,
    logit_scale: float = 1.0,
) -> Tensor:
    """What one site reads: each head's slice of the sources, mixed by that head's `routing_weights`.

    Arguments as in `headcount.kernels.route`, which computes the same in less time and memory.
    """
    weights = routing_weights(sources, query, key_weight, heads, eps=eps, logit_scale=logit_scale)
    values = torch.stack([source.to(weights.dtype) for source in sources])
    mixed = (weights.unsqueeze(-1) * _by_head(values, heads)).sum(0)
    return mixed.view(sources[0].shape).to(sources[0].dtype)


def exact_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision depth routing computes in for sources of `dtype`."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def check_arguments(sources: Sequence[Tensor], query: Tensor, key_weight: Tensor, heads: int) -> None:
    """Raise ValueError, naming the argument, unless one site can read `sources`."""
    if len(sources) == 0:
        raise ValueError("sources is empty: a site reads at least one source, the embedding")
    first = sources[0]
    if first.dim() == 0 or not first.is_floating_point():
        raise ValueError(f"sources[0] must be floating point of shape [..., d], got {_describe(first)}")
    for n, source in enumerate(sources):
        if (source.shape, source.dtype, source.device) != (first.shape, first.dtype, first.device):
            raise ValueError(
                f"sources[{n}] is {_describe(source)} but sources[0] is {_describe(first)}: "
                "all sources need one shape, dtype and device"
            )
    width = first.shape[-1]
    for name, vector in (("query", query), ("key_weight", key_weight)):
        if vector.shape != (width,) or not vector.is_floating_point():
            raise ValueError(
                f"{name} must be floating point of shape [{width}] like the sources, got {_describe(vector)}"
            )
        if vector.device != first.device:
            raise ValueError(f"{name} is on {vector.device} but the sources are on {first.device}")
    check_heads(heads, width)


def check_heads(heads: int, width: int) -> None:
    """Raise ValueError unless `heads` cuts `width` into equal slices."""
    if heads < 1 or width % heads != 0:
        raise ValueError(f"heads must divide the width {width}, got {heads}")


def _by_head(tensor: Tensor, heads: int) -> Tensor:
    return tensor.view(*tensor.shape[:-1], heads, -1)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)} on {tensor.device}"

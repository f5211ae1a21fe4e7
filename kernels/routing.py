"""One site's read over a list of sources: the functional form of depth routing."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headcount.kernels.choice import choose
from headcount.kernels.definition import check_arguments, exact_dtype
from headcount.kernels.reference import inverse_rms, route_reference


def route(
    sources: Sequence[Tensor],
    query: Tensor,
    key_weight: Tensor,
    heads: int,
    *,
    eps: float = 1e-6,
    logit_scale: float = 1.0,
    implementation: str = "auto",
) -> Tensor:
    """What one site reads from the depth history: [..., d], in the sources' dtype.

    sources: N ≥ 1 tensors [..., d] of one shape, dtype and device, oldest first. query, key_weight: [d]
    in any float dtype. Their product is taken in float32 and rounded to the sources' dtype. heads: number
    of contiguous width slices, each with its own softmax over depth; divides d. eps: added to the mean
    square of each source under the root. logit_scale: factor on every logit. implementation: `reference`
    (any device), `fused` (one Triton kernel) or `auto`, which picks.

    The equation is `headcount.kernels.routing_weights`. The softmax and all sums are float32 (float64 for
    float64 sources) in a fixed order: the same inputs give the same bits. First derivatives only.

    Raises ValueError naming the argument that does not fit.
    """
    check_arguments(sources, query, key_weight, heads)
    chosen = choose(implementation, sources[0], one_site=True).implementation
    folded = fold(query, key_weight, logit_scale, sources[0])
    if chosen == "fused":
        from headcount.kernels.fused import route_fused

        return route_fused(sources, folded, heads, eps)
    return route_reference(sources, [inverse_rms(source, eps) for source in sources], folded, heads)


def route_groups(
    sources: Sequence[Tensor],
    queries: Tensor,
    key_weight: Tensor,
    *,
    eps: float = 1e-6,
    logit_scale: float = 1.0,
    implementation: str = "auto",
) -> Tensor:
    """What a site reads for each of G groups: [..., G, d], each group's mixture over the full width.

    queries: [G, d]; each is the query of a `route` with one head, and all share key_weight [d]. Every
    source is loaded once for all groups (`fused`); the other arguments, the errors and the equation are
    those of `route`.
    """
    if queries.dim() != 2 or not len(queries) or (sources and queries.shape[-1:] != sources[0].shape[-1:]):
        raise ValueError(
            f"queries must be of shape [groups, d] with the sources' d, got {list(queries.shape)}"
        )
    check_arguments(sources, queries[0], key_weight, 1)
    chosen = choose(implementation, sources[0], one_site=True).implementation
    if chosen == "fused":
        from headcount.kernels.groups import fits, route_groups_fused

        if fits(*queries.shape):
            return route_groups_fused(sources, fold(queries, key_weight, logit_scale, sources[0]), eps)
    reads = [
        route(sources, query, key_weight, 1, eps=eps, logit_scale=logit_scale, implementation=chosen)
        for query in queries.unbind(0)
    ]
    return torch.stack(reads, dim=-2)


def fold(query: Tensor, key_weight: Tensor, logit_scale: float, source: Tensor) -> Tensor:
    """The one vector a site's logits need: query · key weight · logit scale, in the precision of the
    softmax.
    """
    exact = exact_dtype(source.dtype)
    folded = query.to(exact) * key_weight.to(exact)
    return folded if logit_scale == 1.0 else folded * logit_scale

"""What the probe measures of one site, in float32 or float64: plain functions over tensors.

A site mixes N sources for each of T tokens. Cut into S contiguous slices, its query scores source n by
z_s = <q_s, k_ns> in slice s and by z = Σ_s z_s over the whole width; the softmax of z over the sources is the
*shared* distribution a, that of z_s the slice's own a_s (multi-head attention residuals, arXiv 2607.27230,
the appendix on probing single-head queries).
"""

import torch
from torch import Tensor


def keys(sources: list[Tensor], key_weight: Tensor, eps: float) -> Tensor:
    """Normed over the full width and weighted: [N, T, d] of sources [..., d]."""
    values = torch.stack([source.flatten(0, -2) for source in sources]).to(key_weight.dtype)
    return values * torch.rsqrt(values.square().mean(-1, keepdim=True) + eps) * key_weight


def slice_logits(keys: Tensor, query: Tensor, slices: int) -> Tensor:
    """z_s: [N, T, slices] for keys [N, T, d] and a query [d]."""
    return (keys * query).view(*keys.shape[:-1], slices, -1).sum(-1)


def width_disagreement(logits: Tensor) -> Tensor:
    """Mean over tokens and slices of KL(a_s ‖ a), nats, for z_s [N, T, S]: 0 where all slices agree with the
    shared distribution, as where the query is 0."""
    own = torch.log_softmax(logits, dim=0)
    shared = torch.log_softmax(logits.sum(-1, keepdim=True), dim=0)
    return (own.exp() * (own - shared)).sum(0).mean()


def collinearity(sources: list[Tensor]) -> Tensor:
    """Mean cosine over all pairs of two sources and all tokens. A source of zeros has cosine 0 with any."""
    directions = torch.nn.functional.normalize(
        torch.stack([s.flatten(0, -2).double() for s in sources]), dim=-1
    )
    lengths = directions.square().sum((0, 2))
    pairs = len(sources) * (len(sources) - 1)
    return ((directions.sum(0).square().sum(-1) - lengths) / pairs).mean()


def correlation(a: Tensor, b: Tensor) -> float | None:
    """Pearson's r of two maps of one shape; none where one of them is constant."""
    a, b = a.flatten().double(), b.flatten().double()
    a, b = a - a.mean(), b - b.mean()
    scale = (a.square().sum() * b.square().sum()).sqrt()
    return float((a * b).sum() / scale) if scale > 0 else None


def head_deviation(weights: Tensor) -> Tensor:
    """How the mean weights of each head differ from the heads' mean: of [N, H], [N, H]."""
    return weights - weights.mean(-1, keepdim=True)


def cross_head_correlation(maps: Tensor) -> float | None:
    """Mean of Pearson's r over all pairs of heads, for deviation maps [entries, H]; none for one head.

    The deviations of a token's heads sum to 0, so that unrelated heads have −1 / (H − 1), not 0.
    """
    heads = maps.shape[1]
    pairs = [correlation(maps[:, i], maps[:, j]) for i in range(heads) for j in range(i)]
    known = [r for r in pairs if r is not None]
    return sum(known) / len(known) if known else None

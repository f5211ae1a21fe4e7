"""The `reference` implementation: one site's read over a list of sources, with its backward in closed form.

Nothing of size N·d is stored or stacked: autograd keeps references to the sources, which the model holds
anyway, and N·heads logits a token. The loops go over sources with scratch memory taken once: on a CPU, a new
large tensor for each product costs more in page faults than the product (matrix products and stacked sources
were slower too).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headcount.kernels.definition import exact_dtype


def inverse_rms(source: Tensor, eps: float) -> Tensor:
    """1/rms of every vector of a source [..., d]: [T], in the precision of the softmax, outside autograd."""
    rows = source.detach().reshape(-1, source.shape[-1]).to(exact_dtype(source.dtype))
    mean_square: Tensor = torch.linalg.vector_norm(rows, dim=-1).square_().div_(rows.shape[1])
    return mean_square.add_(eps).rsqrt_()


def route_reference(sources: Sequence[Tensor], norms: Sequence[Tensor], folded: Tensor, heads: int) -> Tensor:
    """One site's read; norms holds each source's `inverse_rms`, taken once for all sites that read it.

    folded: [d], query · key weight · logit scale, in float32 or, for float64 sources, float64.
    """
    mixed: Tensor = _Route.apply(folded, heads, torch.stack(tuple(norms)), *sources)  # type: ignore[no-untyped-call]
    return mixed


class _Route(torch.autograd.Function):
    """With w = query·key_weight, r_n = 1/rms(v_n), z_n = r_n <w, v_n> and a = softmax(z), a head at a time:

    out = Σ a_n v_n;  e_n = <g, v_n>;  p_n = a_n (e_n − Σ a_m e_m), the gradient of z_n;
    dv_n = a_n g + p_n r_n w − (Σ_heads p_n z_n) r_n²/d v_n;  dw = Σ p_n r_n v_n over sources and tokens.
    The middle sum of dv_n runs over all heads, because the norm is shared. As in every implementation, w is
    rounded to the sources' dtype, and its gradient passes the rounding unchanged.
    """

    @staticmethod
    def forward(ctx: Any, folded: Tensor, heads: int, norms: Tensor, *sources: Tensor) -> Tensor:
        exact, slices = folded.dtype, folded.to(sources[0].dtype).to(folded.dtype).view(heads, -1)
        rows = [source.reshape(-1, *slices.shape) for source in sources]
        logits = folded.new_empty(*norms.shape, heads)
        product = folded.new_empty(rows[0].shape)
        for n, row in enumerate(rows):
            torch.mul(row.to(exact), slices, out=product)
            torch.sum(product, dim=-1, out=logits[n])
        logits.mul_(norms.unsqueeze(-1))
        weights = torch.softmax(logits, dim=0).unsqueeze(-1)
        torch.mul(rows[0].to(exact), weights[0], out=product)
        for n in range(1, len(rows)):
            product.addcmul_(rows[n].to(exact), weights[n])
        ctx.save_for_backward(folded, logits, norms, *sources)
        return product.to(sources[0].dtype).view(sources[0].shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "depth routing has first derivatives only: differentiate it without create_graph"
            )
        folded, logits, norms, *sources = ctx.saved_tensors
        wants_query, wants_source = ctx.needs_input_grad[0], ctx.needs_input_grad[3:]
        exact = folded.dtype
        slices = folded.to(sources[0].dtype).to(exact).view(logits.shape[-1], -1)
        rows = [source.reshape(-1, *slices.shape) for source in sources]
        g = grad.reshape(rows[0].shape).to(exact)
        product = torch.empty_like(g)
        e = torch.empty_like(logits)
        for n, row in enumerate(rows):
            torch.mul(row.to(exact), g, out=product)
            torch.sum(product, dim=-1, out=e[n])
        weights = torch.softmax(logits, dim=0)
        p = weights * (e - (weights * e).sum(0))
        norm_factor = ((p * logits).sum(-1) * norms.square() / -folded.shape[0])[..., None, None]
        p, weights = (p * norms.unsqueeze(-1)).unsqueeze(-1), weights.unsqueeze(-1)
        query_sum = product.zero_()
        grad_sources: list[Tensor | None] = []
        for n, row in enumerate(rows):
            value = row.to(exact)
            if wants_query:
                query_sum.addcmul_(value, p[n])
            if wants_source[n]:
                dv = (weights[n] * g).addcmul_(slices, p[n]).addcmul_(value, norm_factor[n])
                grad_sources.append(dv.to(grad.dtype).view(grad.shape))
            else:
                grad_sources.append(None)
        return query_sum.sum(0).view(-1) if wants_query else None, None, None, *grad_sources

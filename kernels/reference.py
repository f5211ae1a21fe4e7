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


def route_reference(sources: Sequence[Tensor], folded: Tensor, heads: int, eps: float) -> Tensor:
    """One site's read; `folded` [d] is query · key weight · logit scale, in float32 or, for float64,
    float64.
    """
    mixed: Tensor = _Route.apply(folded, heads, eps, *sources)  # type: ignore[no-untyped-call]
    return mixed


class _Route(torch.autograd.Function):
    """With w = query·key_weight, r_n = 1/rms(v_n), z_n = r_n <w, v_n> and a = softmax(z), a head at a time:

    out = Σ a_n v_n;  e_n = <g, v_n>;  p_n = a_n (e_n − Σ a_m e_m), the gradient of z_n;
    dv_n = a_n g + p_n r_n w − (Σ_heads p_n z_n) r_n²/d v_n;  dw = Σ p_n r_n v_n over sources and tokens.
    The middle sum of dv_n runs over all heads, because the norm is shared. As in every implementation, w is
    rounded to the sources' dtype, and its gradient passes the rounding unchanged.
    """

    @staticmethod
    def forward(ctx: Any, folded: Tensor, heads: int, eps: float, *sources: Tensor) -> Tensor:
        exact, slices = folded.dtype, folded.to(sources[0].dtype).to(folded.dtype).view(heads, -1)
        rows = [source.reshape(-1, *slices.shape) for source in sources]
        tokens, width = rows[0].shape[0], folded.shape[0]
        logits = folded.new_empty(len(rows), tokens, heads)
        inverse_rms = folded.new_empty(len(rows), tokens)
        product = folded.new_empty(tokens, *slices.shape)
        for n, row in enumerate(rows):
            value = row.to(exact)
            torch.linalg.vector_norm(value, dim=(-2, -1), out=inverse_rms[n])
            torch.mul(value, slices, out=product)
            torch.sum(product, dim=-1, out=logits[n])
        inverse_rms.square_().div_(width).add_(eps).rsqrt_()
        logits.mul_(inverse_rms.unsqueeze(-1))
        weights = torch.softmax(logits, dim=0).unsqueeze(-1)
        torch.mul(rows[0].to(exact), weights[0], out=product)
        for n in range(1, len(rows)):
            product.addcmul_(rows[n].to(exact), weights[n])
        ctx.save_for_backward(folded, logits, inverse_rms, *sources)
        return product.to(sources[0].dtype).view(sources[0].shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "depth routing has first derivatives only: differentiate it without create_graph"
            )
        folded, logits, inverse_rms, *sources = ctx.saved_tensors
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
        norm_factor = ((p * logits).sum(-1) * inverse_rms.square() / -folded.shape[0])[..., None, None]
        p, weights = (p * inverse_rms.unsqueeze(-1)).unsqueeze(-1), weights.unsqueeze(-1)
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

"""The `two_phase` implementation: exact routing of a whole model with three to four times fewer bytes.

Queries do not depend on activations, so the sites of a block can read the older sources together.
Forward, the first site of a block reads them once for all its sites (partial_kernel); each later site
merges in the block's own sources (merge_kernel). Backward mirrors it: a source's gradient gathers its own
block's reads at once (finalise_kernel) and the other blocks' in one deferred pass a block
(deferred_kernel). docs/kernels.md has the picture.

A head too wide for a tile of sources has its sites in one block, and each site's backward adds to all its
sources.

Gradients are gathered in place, outside autograd's sight. A one-element token threads all reads and
writes, so that autograd runs their backwards in the opposite order; any other order is refused.
"""

from typing import Any

import torch
from torch import Tensor

from headcount.kernels.forward import Forward, Norm
from headcount.kernels.gating import DeltaForm
from headcount.kernels.gradients import Gradients
from headcount.kernels.launch import Launch


class TwoPhase:
    """One forward pass of a model, tracked by autograd. Calls alternate: write, read, write, read, ..."""

    def __init__(
        self,
        folded: Tensor,
        like: Tensor,
        heads: int,
        eps: float,
        launch: Launch | None = None,
        delta: DeltaForm | None = None,
    ) -> None:
        """folded: [N, d] float32, query · key weight · logit scale of each site; like: a source [..., d].

        delta: for the delta form; its sites are read with `read_gated`, and a source is written before the
        first of each `block_size` of them only.
        """
        self.forward = Forward(folded.detach(), like, heads, eps, launch, delta)
        # the graph knows the buffers but not this object, which knows the graph: no cycle keeps either alive
        self.gradients = Gradients(self.forward)
        self.token: Tensor = _Begin.apply(  # type: ignore[no-untyped-call]
            folded,
            delta.nulls if delta else None,
            delta.gates if delta else None,
            self.forward.no_gradient,
            self.gradients,
        )

    def write(self, source: Tensor) -> None:
        """Append one source [..., d] to the history."""
        self.token = _Write.apply(source, self.token, self.gradients)  # type: ignore[no-untyped-call]

    def write_product(self, x: Tensor, weight: Tensor) -> None:
        """Append x weightᵀ [..., d], of the sources' dtype, computed in its place in the history."""
        self.write(_Product.apply(x, weight, self.forward.place()))  # type: ignore[no-untyped-call]

    def read_normed(self, weight: Tensor, eps: float) -> Tensor:
        """What the next site reads, over its rms, times `weight` [d]."""
        out, self.token = _ReadNormed.apply(weight, eps, self.token, self.gradients)  # type: ignore[no-untyped-call]
        normed: Tensor = out
        return normed

    def read(self) -> Tensor:
        """What the next site reads: [..., d]."""
        out, self.token = _Read.apply(self.token, self.gradients)  # type: ignore[no-untyped-call]
        mixed: Tensor = out
        return mixed

    def read_gated(self, base: Tensor) -> Tensor:
        """What the next site of the delta form reads: `base` [..., d] and its gated mixture."""
        out, self.token = _ReadGated.apply(base, self.token, self.gradients)  # type: ignore[no-untyped-call]
        added: Tensor = out
        return added


class _Begin(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        folded: Tensor,
        nulls: Tensor | None,
        gates: Tensor | None,
        token: Tensor,
        gradients: Gradients,
    ) -> Tensor:
        ctx.gradients = gradients
        return token.view_as(token)

    @staticmethod
    def backward(ctx: Any, token: Tensor) -> tuple[Tensor | None, ...]:
        return *ctx.gradients.of_parameters(), None, None


class _Write(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, token: Tensor, gradients: Gradients) -> Tensor:
        ctx.gradients, ctx.source = gradients, gradients.forward.num_written
        ctx.set_materialize_grads(False)
        gradients.forward.store(source)
        return token.view_as(token)

    @staticmethod
    def backward(ctx: Any, token: Tensor) -> tuple[Tensor, Tensor, None]:
        return ctx.gradients.of_source(ctx.source), ctx.gradients.forward.no_gradient, None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.mark_dirty(place)
        torch.mm(x.reshape(-1, x.shape[-1]), weight.t(), out=place.view(-1, len(weight)))
        return place

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        rows = grad.reshape(-1, len(weight))
        of_x = (rows @ weight).view(x.shape) if ctx.needs_input_grad[0] else None
        of_weight = rows.t() @ x.reshape(len(rows), -1) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, None


class _Read(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, token: Tensor, gradients: Gradients) -> tuple[Tensor, Tensor]:
        ctx.gradients, ctx.site = gradients, gradients.forward.num_read
        ctx.set_materialize_grads(False)
        out = gradients.forward.mix(keep=ctx.needs_input_grad[0])
        ctx.save_for_backward(out)
        return out, token.view_as(token)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, token: Tensor | None) -> tuple[Tensor, None]:
        _refuse_second_derivative()
        (out,) = ctx.saved_tensors  # raises if the model changed what it read in place
        ctx.gradients.expect(ctx.site)
        ctx.gradients.take(ctx.site, torch.zeros_like(out) if grad is None else grad)
        return ctx.gradients.forward.no_gradient, None


class _ReadNormed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, eps: float, token: Tensor, gradients: Gradients
    ) -> tuple[Tensor, Tensor]:
        ctx.gradients, ctx.site, ctx.eps = gradients, gradients.forward.num_read, eps
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(weight)
        out = gradients.forward.mix(keep=ctx.needs_input_grad[2], norm=Norm(weight, eps))
        return out, token.view_as(token)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, token: Tensor | None) -> tuple[Tensor, None, Tensor, None]:
        _refuse_second_derivative()
        (weight,) = ctx.saved_tensors
        gradients: Gradients = ctx.gradients
        gradients.expect(ctx.site)
        of_weight = gradients.take_normed(ctx.site, grad, Norm(weight, ctx.eps))
        return of_weight, None, gradients.forward.no_gradient, None


class _ReadGated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, base: Tensor, token: Tensor, gradients: Gradients) -> tuple[Tensor, Tensor]:
        ctx.gradients, ctx.site = gradients, gradients.forward.num_read
        ctx.set_materialize_grads(False)
        out = gradients.forward.mix_gated(base, keep=ctx.needs_input_grad[1])
        return out, token.view_as(token)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, token: Tensor | None) -> tuple[Tensor | None, Tensor, None]:
        _refuse_second_derivative()
        gradients: Gradients = ctx.gradients
        gradients.expect(ctx.site)
        gradients.take_gated(ctx.site, grad)
        return grad, gradients.forward.no_gradient, None


def _refuse_second_derivative() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("depth routing has first derivatives only: differentiate it without create_graph")

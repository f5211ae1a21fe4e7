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

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from headcount.kernels.block_kernels import partial_kernel
from headcount.kernels.gradients import Gradients
from headcount.kernels.launch import SITES_PADDED, Launch, dot_dtype, launch_for
from headcount.kernels.launching import on_device
from headcount.kernels.norm_kernels import norm_forward_kernel
from headcount.kernels.row_kernels import merge_kernel, write_kernel
from headcount.kernels.tiles import Tiles


class Block(NamedTuple):
    """Consecutive sites that read the sources older than the block together."""

    first_site: int
    num_sites: int
    num_old: int  # sources 0..num_old-1; none for the first block, whose sources are all its own
    num_all: int  # sources 0..num_all-1 are what its last site reads


def partition(num_sites: int, largest: int) -> list[Block]:
    """The fewest blocks of at most `largest` sites, as equal as can be. Site 0, which reads one source and
    has no use for its query, joins the first block uncounted: a model's 2L + 1 sites are often 1 more than a
    multiple of 8.
    """
    num_blocks = max(1, -(-(num_sites - 1) // largest))
    blocks = []
    first = 0
    for b in range(num_blocks):
        size = (num_sites - 1) // num_blocks + (b < (num_sites - 1) % num_blocks) + (b == 0)
        blocks.append(Block(first, size, first + 1 if first else 0, first + size))
        first += size
    return blocks


class TwoPhase:
    """One forward pass of a model, tracked by autograd. Calls alternate: write, read, write, read, ..."""

    def __init__(
        self, folded: Tensor, like: Tensor, heads: int, eps: float, launch: Launch | None = None
    ) -> None:
        """folded: [N, d] float32, query · key weight · logit scale of each site; like: a source [..., d]."""
        self.forward = Forward(folded.detach(), like, heads, eps, launch)
        # the graph knows the buffers but not this object, which knows the graph: no cycle keeps either alive
        self.gradients = Gradients(self.forward)
        self.token: Tensor = _Begin.apply(folded, self.forward.no_gradient, self.gradients)  # type: ignore[no-untyped-call]

    def write(self, source: Tensor) -> None:
        """Append one source [..., d] to the history."""
        self.token = _Write.apply(source, self.token, self.gradients)  # type: ignore[no-untyped-call]

    def write_product(self, x: Tensor, weight: Tensor) -> None:
        """Append x weightᵀ [..., d], of the sources' dtype, computed in its place in the history."""
        self.token = _WriteProduct.apply(x, weight, self.token, self.gradients)  # type: ignore[no-untyped-call]

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


class Norm(NamedTuple):
    """An RMSNorm that follows a read."""

    weight: Tensor  # [d]
    eps: float


class Forward:
    """The buffers of one forward pass, and the kernels that fill them."""

    def __init__(
        self,
        folded: Tensor,
        like: Tensor,
        heads: int,
        eps: float,
        launch: Launch | None = None,
        blocks: list[Block] | None = None,
    ) -> None:
        num_sites, width = folded.shape
        self.shape = like.shape
        self.tokens = like.numel() // width
        self.tiles = Tiles.of(width, heads)
        self.eps = eps
        self.sources = like.new_empty(blocks[-1].num_all if blocks else num_sites, self.tokens, width)
        self.launch = launch or launch_for(self.tiles, self.sources)
        self.blocks = blocks or partition(
            num_sites, num_sites if self.launch.one_site else self.launch.block_sites
        )
        self.block_of = [block for block in self.blocks for _ in range(block.num_sites)]
        self.queries = folded.to(like.dtype)
        self.gates: Tensor | None = None  # [N] float32, where the mixtures pass gates
        # a token's row, here and in the deferred Σ p z, is padded to whole 64-byte lines
        self.row_stride = triton.cdiv(num_sites, 16) * 16
        self.inverse_rms = folded.new_empty(self.tokens, self.row_stride)
        self.num_written = self.num_read = 0
        self.norm_is_due = False  # the newest source came without its inverse rms
        self.kept: dict[Block, tuple[Tensor, Tensor]] = {}
        self.no_gradient = folded.new_zeros(1)

    def store(self, source: Tensor) -> None:
        """Copy a source into the buffer."""
        self.run_write(source.contiguous(), self.num_written, copy=True)
        self.num_written += 1

    def store_product(self, x: Tensor, weight: Tensor) -> None:
        """Compute a source, x weightᵀ, in the buffer."""
        torch.mm(x.reshape(self.tokens, -1), weight.t(), out=self.sources[self.num_written])
        self.num_written += 1
        self.norm_is_due = True

    def run_write(self, source: Tensor, index: int, *, copy: bool) -> None:
        width = self.tiles.D
        with on_device(source):
            write_kernel[(self.tokens,)](
                source,
                self.sources,
                self.inverse_rms,
                self.tokens,
                index,
                self.row_stride,
                self.eps,
                D=width,
                BD=triton.next_power_of_2(width),
                COPY=copy,
                num_warps=1 if width <= 1024 else 4,
            )

    def mix(self, keep: bool, norm: Norm | None = None) -> Tensor:
        """Run the next site's forward, [..., d], normed where `norm` is given; `keep` what its block's
        backward needs.
        """
        site = self.num_read
        block = self.block_of[site]
        if site == block.first_site:
            out = self.sources.new_empty(block.num_sites, self.tokens, self.tiles.D)
            self.current = (out, self.inverse_rms.new_empty(block.num_sites, self.tokens, self.tiles.H))
        out, lse = self.current
        if keep:
            self.kept[block] = self.current
        mixture = out[site - block.first_site]
        normed = torch.empty_like(mixture) if norm else None
        with on_device(out):
            if site == block.first_site and block.num_old:
                if self.norm_is_due:
                    self.run_write(self.sources[site], site, copy=False)
                self.run_partial(block, out, lse)
                if norm:
                    self.run_norm(mixture, norm, normed)
            elif block.num_all > block.num_old:
                self.run_merge(site, block, out, lse, norm, normed)
        self.norm_is_due = False
        self.num_read += 1
        return (mixture if normed is None else normed).view(self.shape)

    def run_partial(self, block: Block, out: Tensor, lse: Tensor) -> None:
        launch = self.launch
        programs = triton.cdiv(self.tokens, launch.partial_tokens) * self.tiles.H
        partial_kernel[(programs,)](
            self.sources,
            *self.descriptors(self.sources, block.num_old),
            self.queries,
            self.inverse_rms,
            out,
            lse,
            self.tokens,
            block.first_site,
            block.num_sites,
            block.num_old,
            self.row_stride,
            **self.tiles._asdict(),
            SP=SITES_PADDED,
            CHUNK=launch.chunk,
            TOKENS=launch.partial_tokens,
            STAGES=launch.partial_stages,
            DOT=dot_dtype(out.dtype),
            TMA=launch.tma,
            num_warps=launch.block_warps,
        )

    def run_norm(self, mixture: Tensor, norm: Norm, normed: Tensor | None) -> None:
        norm_forward_kernel[(self.tokens,)](
            mixture,
            norm.weight,
            normed,
            norm.eps,
            **self.tiles._asdict(),
            num_warps=self.launch.merge_warps,
        )

    def run_merge(
        self,
        site: int,
        block: Block,
        out: Tensor,
        lse: Tensor,
        norm: Norm | None = None,
        normed: Tensor | None = None,
    ) -> None:
        merge_kernel[(self.tokens,)](
            self.sources,
            self.queries,
            self.inverse_rms,
            out,
            lse,
            norm.weight if norm else None,
            normed,
            self.tokens,
            site,
            site - block.first_site,
            block.num_old,
            self.row_stride,
            self.eps,
            norm.eps if norm else self.eps,
            **self.tiles._asdict(),
            HAS_PARTIAL=block.num_old > 0,
            HAS_NORM=not self.norm_is_due,
            IS_NORMED=norm is not None,
            STAGES=self.launch.merge_stages,
            num_warps=self.launch.merge_warps,
        )

    def descriptors(
        self, buffer: Tensor, num_sources: int
    ) -> tuple[TensorDescriptor | None, TensorDescriptor | None]:
        """Tensor maps of the two tiles of a head, over the first sources of a buffer [N, T, d]."""
        if not self.launch.tma or num_sources == 0:
            return None, None
        rows = buffer.view(len(buffer), -1)[:num_sources]
        main, rest = (
            TensorDescriptor.from_tensor(rows, [self.launch.chunk, width]) if width else None
            for width in (self.tiles.DA, self.tiles.DB)
        )
        return main, rest


class _Begin(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, folded: Tensor, token: Tensor, gradients: Gradients) -> Tensor:
        ctx.gradients = gradients
        return token.view_as(token)

    @staticmethod
    def backward(ctx: Any, token: Tensor) -> tuple[Tensor, None, None]:
        return ctx.gradients.of_queries(), None, None


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


class _WriteProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, token: Tensor, gradients: Gradients) -> Tensor:
        ctx.gradients, ctx.source = gradients, gradients.forward.num_written
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, weight)
        gradients.forward.store_product(x, weight)
        return token.view_as(token)

    @staticmethod
    def backward(ctx: Any, token: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor, None]:
        x, weight = ctx.saved_tensors
        grad = ctx.gradients.of_source(ctx.source).view(-1, len(weight))
        of_x = (grad @ weight).view(x.shape) if ctx.needs_input_grad[0] else None
        of_weight = grad.t() @ x.reshape(len(grad), -1) if ctx.needs_input_grad[1] else None
        return of_x, of_weight, ctx.gradients.forward.no_gradient, None


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


def _refuse_second_derivative() -> None:
    if torch.is_grad_enabled():
        raise RuntimeError("depth routing has first derivatives only: differentiate it without create_graph")

"""The forward of `two_phase`: blocks of sites, the buffers of a pass and the kernels that fill them."""

from typing import NamedTuple

import torch
import triton
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from headcount.kernels.block_kernels import partial_kernel
from headcount.kernels.gating import DeltaForm, Gating
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
    sizes = _even(num_sites - 1, largest)
    sizes[0] += 1
    return _full(sizes)


def partition_delta(num_sites: int, block_size: int, largest: int) -> list[Block]:
    """Blocks of the delta form, where site 0 has a null source to weigh. With `block_size` sublayers to a
    source, the sites up to the next source are cut evenly: all of a block read the same sources.
    """
    if block_size == 1:
        return _full(_even(num_sites, largest))
    blocks = []
    for first in range(0, num_sites, block_size):
        num_sources = first // block_size + 1
        for size in _even(min(block_size, num_sites - first), largest):
            blocks.append(Block(first, size, num_sources, num_sources))
            first += size
    return blocks


def _even(num_sites: int, largest: int) -> list[int]:
    """The sizes of the fewest parts, as equal as can be."""
    parts = max(1, -(-num_sites // largest))
    return [num_sites // parts + (part < num_sites % parts) for part in range(parts)]


def _full(sizes: list[int]) -> list[Block]:
    """Blocks of full routing, where each site reads one source more than the site before."""
    blocks = []
    first = 0
    for size in sizes:
        blocks.append(Block(first, size, first + 1 if first else 0, first + size))
        first += size
    return blocks


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
        delta: DeltaForm | None = None,
    ) -> None:
        num_sites, width = folded.shape
        num_sources = num_sites if delta is None else (num_sites - 1) // delta.block_size + 1
        self.shape = like.shape
        self.tokens = like.numel() // width
        self.tiles = Tiles.of(width, heads)
        self.eps = eps
        self.sources = like.new_empty(num_sources, self.tokens, width)
        self.launch = launch or launch_for(self.tiles, like)
        if delta is not None:
            assert not self.launch.one_site, "the delta form has no backward by sites"
            self.blocks = partition_delta(num_sites, delta.block_size, self.launch.block_sites)
        else:
            largest = num_sites if self.launch.one_site else self.launch.block_sites
            self.blocks = partition(num_sites, largest)
        self.block_of = [block for block in self.blocks for _ in range(block.num_sites)]
        self.queries = folded.to(like.dtype)
        self.gating: Gating | None = None
        if delta is not None:
            self.gating = Gating(delta, self.queries, self.tiles, eps, self.launch)
        # a token's row, here and in the deferred Σ p z, is padded to whole 64-byte lines
        self.row_stride = triton.cdiv(num_sources, 16) * 16
        self.inverse_rms = folded.new_empty(self.tokens, self.row_stride)
        self.num_written = self.num_read = 0
        self.norm_is_due = False  # the newest source came without its inverse rms
        self.kept: dict[Block, tuple[Tensor, Tensor]] = {}
        self.no_gradient = folded.new_zeros(1)

    def place(self) -> Tensor:
        """Where the next source will lie, [..., d]: to autograd no part of the buffer, but of its own."""
        row = self.sources[self.num_written].view(self.shape)
        return row.new_empty(0).set_(row.untyped_storage(), row.storage_offset(), row.shape, row.stride())

    def store(self, source: Tensor) -> None:
        """Copy a source into the buffer, unless it was computed in its place there."""
        source = source.contiguous()
        self.norm_is_due = source.data_ptr() == self.sources[self.num_written].data_ptr()
        if not self.norm_is_due:
            self.run_write(source, self.num_written, copy=True)
        self.num_written += 1

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

    def mix_gated(self, base: Tensor, keep: bool) -> Tensor:
        """What the next site of the delta form reads: `base` [..., d] and its gated mixture."""
        site, gating = self.num_read, self.gating
        assert gating is not None
        self.mix(keep)
        rows = base.reshape(self.tokens, -1).contiguous()
        return gating.add(site, site - self.block_of[site].first_site, rows, *self.current).view(self.shape)

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
            TILES=self.tiles,
            SP=SITES_PADDED,
            CHUNK=launch.chunk,
            TOKENS=launch.partial_tokens,
            SLICES=launch.slices,
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
            TILES=self.tiles,
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
            TILES=self.tiles,
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
        chunk, slices = self.launch.chunk, self.launch.slices
        if slices > 1:
            width = self.tiles.DA // slices
            by_slice = rows.view(num_sources, -1, width).transpose(0, 1)
            return TensorDescriptor.from_tensor(by_slice, [slices, chunk, width]), None
        main, rest = (
            TensorDescriptor.from_tensor(rows, [chunk, width]) if width else None
            for width in (self.tiles.DA, self.tiles.DB)
        )
        return main, rest

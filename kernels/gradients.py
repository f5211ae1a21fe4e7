"""The backward of the `two_phase` implementation: gradients are gathered in place."""

from typing import TYPE_CHECKING

import torch
import triton
from torch import Tensor

from headcount.kernels.block_kernels import deferred_kernel
from headcount.kernels.launching import aligned, launch_site_backward, on_device, table_of
from headcount.kernels.launch import SITES_PADDED, dot_dtype
from headcount.kernels.row_kernels import delta_kernel, finalise_kernel

if TYPE_CHECKING:
    from headcount.kernels.two_phase import Block, Forward


class Gradients:
    """The backward of one pass: sites in descending order, each followed by the source written before it."""

    def __init__(self, forward: "Forward") -> None:
        self.forward = forward
        self.next_site: int | None = None
        self.of_sites: dict[int, Tensor] = {}

    def begin(self) -> None:
        """Take the buffers, once all reads of the forward are known."""
        fwd = self.forward
        self.num_sites = fwd.num_read
        self.next_site = fwd.num_read - 1
        self.of_sources = torch.empty_like(fwd.sources)
        self.deferred_pz = fwd.inverse_rms.new_empty(fwd.tokens, fwd.tiles.H, fwd.row_stride)
        self.delta = fwd.inverse_rms.new_empty(fwd.blocks[0].num_sites, fwd.tokens, fwd.tiles.H)
        self.of_folded = torch.zeros_like(fwd.queries, dtype=torch.float32)
        self.table = table_of(fwd.sources.unbind(0)) if fwd.launch.one_site else None

    def take(self, site: int, grad: Tensor) -> None:
        """The gradient of a site's read has arrived."""
        fwd = self.forward
        if self.next_site is None:
            self.begin()
        if site != self.next_site:
            raise RuntimeError(
                f"depth routing met the gradient of site {site} where it expected site {self.next_site}: "
                "two_phase runs its backward once, over all sites that were read; for a second or a partial "
                "backward choose implementation='fused'"
            )
        self.next_site = site - 1
        self.of_sites[site] = aligned(grad.reshape(fwd.tokens, -1))
        block = fwd.block_of[site]
        if fwd.launch.one_site:
            self.run_site(site, block)
        elif site == block.first_site and block.num_old:
            self.run_delta(block)
            self.run_deferred(block)

    def of_source(self, source: int) -> Tensor:
        """Finish the gradient of `source`: all sites that read it have contributed."""
        fwd = self.forward
        if fwd.launch.one_site:
            return self.of_sources[source].view(fwd.shape)
        block = fwd.block_of[source]
        reads_itself = source > block.first_site or block.num_old == 0
        grads = tuple(
            self.of_sites[site] for site in self.sites(block)[source - block.first_site :] if reads_itself
        )
        out, lse = fwd.kept[block] if grads else (fwd.sources, self.delta)
        with on_device(fwd.sources):
            finalise_kernel[(fwd.tokens,)](
                fwd.sources,
                fwd.queries,
                fwd.inverse_rms,
                grads,
                out,
                lse,
                self.delta,
                self.of_sources,
                self.deferred_pz,
                fwd.tokens,
                source,
                source - block.first_site,
                fwd.row_stride,
                **fwd.tiles._asdict(),
                SITES=len(grads),
                HAS_DEFERRED=not grads or self.sites(block).stop < self.num_sites,
                num_warps=fwd.launch.finalise_warps,
            )
        return self.of_sources[source].view(fwd.shape)

    def of_queries(self) -> Tensor:
        """Finish the gradient of the folded queries [N, d], and let go of all buffers."""
        fwd = self.forward
        if fwd.launch.one_site:
            self.of_folded[0] = 0  # one source, of weight 1 whatever the query; the kernel leaves rounding
        else:
            self.run_deferred(fwd.blocks[0])
        total = self.of_folded
        fwd.kept.clear()
        del fwd.sources, fwd.current, self.of_sources, self.deferred_pz, self.delta, self.of_folded
        return total

    def sites(self, block: "Block") -> range:
        """The block's sites, of those that were read."""
        return range(block.first_site, min(block.first_site + block.num_sites, self.num_sites))

    def run_site(self, site: int, block: "Block") -> None:
        fwd = self.forward
        out, lse = (tensor[site - block.first_site] for tensor in fwd.kept[block])
        assert self.table is not None
        self.of_folded[site] = launch_site_backward(
            self.table,
            site + 1,
            fwd.queries[site],
            self.of_sites.pop(site),
            out,
            lse,
            self.of_sources,
            fwd.eps,
            accumulate=site + 1 < self.num_sites,
        )

    def run_delta(self, block: "Block") -> None:
        fwd = self.forward
        with on_device(fwd.sources):
            delta_kernel[(fwd.tokens,)](
                self.of_sites[block.first_site],
                fwd.kept[block][0],
                self.delta,
                fwd.tokens,
                0,
                **fwd.tiles._asdict(),
                num_warps=fwd.launch.merge_warps,
            )

    def run_deferred(self, block: "Block") -> None:
        fwd, launch = self.forward, self.forward.launch
        sites = self.sites(block)
        lse, delta = fwd.kept.pop(block)[1], self.delta
        if sites.start == 0:  # its query has no gradient
            sites, lse, delta = sites[1:], lse[1:], delta[1:]
            del self.of_sites[0]
            if not sites:
                return
        addresses = [self.of_sites[site].data_ptr() for site in sites]
        addresses += addresses[:1] * (SITES_PADDED - len(addresses))
        programs = triton.cdiv(fwd.tokens, launch.deferred_tokens)
        of_folded = fwd.inverse_rms.new_empty(programs, len(sites), fwd.tiles.D)
        with on_device(fwd.sources):
            deferred_kernel[(programs * fwd.tiles.H,)](
                fwd.sources,
                *fwd.descriptors(fwd.sources, sites.stop),
                fwd.queries,
                fwd.inverse_rms,
                *addresses,
                lse,
                delta,
                self.of_sources,
                *fwd.descriptors(self.of_sources, block.num_old),
                self.deferred_pz,
                of_folded,
                fwd.tokens,
                sites.start,
                len(sites),
                block.num_old,
                fwd.row_stride,
                **fwd.tiles._asdict(),
                SP=SITES_PADDED,
                CHUNK=launch.chunk,
                TOKENS=launch.deferred_tokens,
                STAGES=launch.deferred_stages,
                DOT=dot_dtype(fwd.sources.dtype),
                HAS_OLD=block.num_old > 0,
                ACCUMULATE=block.num_old > 0 and sites.stop < self.num_sites,
                TMA=launch.tma,
                num_warps=launch.block_warps,
            )
        torch.sum(of_folded, 0, out=self.of_folded[sites.start : sites.stop])
        for site in sites:
            del self.of_sites[site]

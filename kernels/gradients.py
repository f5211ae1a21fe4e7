"""The backward of the `two_phase` implementation: gradients are gathered in place."""

from typing import TYPE_CHECKING

import torch
import triton
from torch import Tensor

from headcount.kernels.block_kernels import deferred_kernel
from headcount.kernels.launch import SITES_PADDED, dot_dtype
from headcount.kernels.launching import aligned, launch_site_backward, on_device, sum_of_programs, table_of
from headcount.kernels.norm_kernels import norm_backward_kernel
from headcount.kernels.row_kernels import delta_kernel, finalise_kernel

if TYPE_CHECKING:
    from headcount.kernels.forward import Block, Forward, Norm


class Gradients:
    """The backward of one pass: sites in descending order, each followed by the source written before it."""

    def __init__(self, forward: "Forward") -> None:
        self.forward = forward
        self.next_site: int | None = None
        self.of_sites: dict[int, Tensor] = {}
        self.has_delta: set[int] = set()  # sites whose <gradient, read> is already in self.delta

    def begin(self) -> None:
        """Take the buffers, once all reads of the forward are known."""
        fwd = self.forward
        self.num_sites = fwd.num_read
        self.next_site = fwd.num_read - 1
        self.of_sources = torch.empty_like(fwd.sources)
        self.deferred_pz = fwd.inverse_rms.new_empty(fwd.tokens, fwd.tiles.H, fwd.row_stride)
        most = max(block.num_sites for block in fwd.blocks)
        self.delta = fwd.inverse_rms.new_empty(most, fwd.tokens, fwd.tiles.H)
        self.of_folded = torch.zeros_like(fwd.queries, dtype=torch.float32)
        self.table = table_of(fwd.sources.unbind(0)) if fwd.launch.one_site else None

    def expect(self, site: int) -> None:
        """Take the gradient of `site` next, or raise RuntimeError."""
        if self.next_site is None:
            self.begin()
        if site != self.next_site:
            raise RuntimeError(
                f"depth routing met the gradient of site {site} where it expected site {self.next_site}: "
                "two_phase runs its backward once, over all sites that were read; for a second or a partial "
                "backward choose implementation='fused'"
            )
        self.next_site = site - 1

    def take(self, site: int, grad: Tensor) -> None:
        """The gradient of a site's mixture (before a gate) has arrived."""
        fwd = self.forward
        self.of_sites[site] = aligned(grad.reshape(fwd.tokens, -1))
        block = fwd.block_of[site]
        if fwd.launch.one_site:
            self.run_site(site, block)
        elif site == block.first_site and block.num_old:
            if site not in self.has_delta:
                self.run_delta(block)
            self.run_deferred(block)

    def take_normed(self, site: int, grad: Tensor | None, norm: "Norm") -> Tensor:
        """The gradient of a normed read has arrived; returns the norm weight's."""
        fwd = self.forward
        block = fwd.block_of[site]
        slot = site - block.first_site
        mixture = fwd.kept[block][0][slot]
        grad = torch.zeros_like(mixture) if grad is None else aligned(grad.reshape(fwd.tokens, -1))
        of_mixture = torch.empty_like(mixture)
        programs = triton.cdiv(fwd.tokens, fwd.launch.norm_tokens)
        of_weight = fwd.inverse_rms.new_empty(programs, fwd.tiles.D)
        with on_device(fwd.sources):
            norm_backward_kernel[(programs,)](
                mixture,
                norm.weight,
                grad,
                of_mixture,
                self.delta[slot],
                of_weight,
                fwd.tokens,
                norm.eps,
                TILES=fwd.tiles,
                TOKENS=fwd.launch.norm_tokens,
                STAGES=3,
                num_warps=fwd.launch.norm_warps,
            )
        self.has_delta.add(site)
        self.take(site, of_mixture)
        return sum_of_programs(of_weight, torch.empty_like(norm.weight))

    def take_gated(self, site: int, grad: Tensor | None) -> None:
        """The gradient of what a site of the delta form read has arrived."""
        fwd = self.forward
        assert fwd.gating is not None
        block = fwd.block_of[site]
        grad = fwd.sources.new_zeros(fwd.sources[0].shape) if grad is None else grad
        self.of_sites[site] = aligned(grad.reshape(fwd.tokens, -1))
        fwd.gating.take(site, site - block.first_site, self.of_sites[site], *fwd.kept[block], self.delta)
        self.has_delta.add(site)
        self.take(site, self.of_sites[site])

    def of_source(self, source: int) -> Tensor:
        """Finish the gradient of `source`: all sites that read it have contributed."""
        fwd = self.forward
        if fwd.launch.one_site:
            return self.of_sources[source].view(fwd.shape)
        block = fwd.block_of[source]
        own = block.num_old <= source < block.num_all
        sites = self.sites(block)[source - block.first_site :] if own else range(0)
        grads = tuple(self.of_sites[site] for site in sites)
        out, lse = fwd.kept[block] if grads else (fwd.sources, self.delta)
        gates = fwd.gating.gates if fwd.gating else None
        with on_device(fwd.sources):
            finalise_kernel[(fwd.tokens,)](
                fwd.sources,
                fwd.queries,
                fwd.inverse_rms,
                grads,
                out,
                lse,
                self.delta,
                gates,
                self.of_sources,
                self.deferred_pz,
                fwd.tokens,
                source,
                source - block.first_site,
                fwd.row_stride,
                TILES=fwd.tiles,
                SITES=len(grads),
                HAS_DELTA=source in self.has_delta,
                GATED=gates is not None,
                HAS_DEFERRED=not grads or self.sites(block).stop < self.num_sites,
                num_warps=fwd.launch.finalise_warps,
            )
        return self.of_sources[source].view(fwd.shape)

    def of_parameters(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Finish the gradients of the folded queries [N, d] and, in the delta form, of the null sources
        [N, d] and the gates [N]; let go of all buffers.
        """
        fwd = self.forward
        if fwd.launch.one_site:
            self.of_folded[0] = 0  # one source, of weight 1 whatever the query; the kernel leaves rounding
        elif fwd.blocks[0].num_old == 0:
            self.run_deferred(fwd.blocks[0])
        total = self.of_folded
        of_nulls = of_gates = None
        if fwd.gating:
            by_nulls, of_nulls, of_gates = fwd.gating.gradients()
            total += by_nulls
        fwd.kept.clear()
        del fwd.sources, fwd.current, self.of_sources, self.deferred_pz, self.delta, self.of_folded
        return total, of_nulls, of_gates

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
                TILES=fwd.tiles,
                num_warps=fwd.launch.merge_warps,
            )

    def run_deferred(self, block: "Block") -> None:
        fwd, launch = self.forward, self.forward.launch
        sites = self.sites(block)
        lse, delta = fwd.kept.pop(block)[1], self.delta
        gates = fwd.gating.gates if fwd.gating else None
        if sites.start == 0 and gates is None:  # its query has no gradient
            sites, lse, delta = sites[1:], lse[1:], delta[1:]
            del self.of_sites[0]
            if not sites:
                return
        addresses = [self.of_sites[site].data_ptr() for site in sites]
        addresses += addresses[:1] * (SITES_PADDED - len(addresses))
        num_all = min(block.num_all, sites.stop)
        i_newest = sites.start if num_all > block.num_old else num_all - 1
        programs = triton.cdiv(fwd.tokens, launch.deferred_tokens)
        of_folded = fwd.inverse_rms.new_empty(programs, len(sites), fwd.tiles.D)
        with on_device(fwd.sources):
            deferred_kernel[(programs * fwd.tiles.H,)](
                fwd.sources,
                *fwd.descriptors(fwd.sources, num_all),
                fwd.queries,
                fwd.inverse_rms,
                *addresses,
                lse,
                delta,
                gates,
                self.of_sources,
                *fwd.descriptors(self.of_sources, block.num_old),
                self.deferred_pz,
                of_folded,
                fwd.tokens,
                sites.start,
                len(sites),
                block.num_old,
                num_all,
                i_newest,
                fwd.row_stride,
                TILES=fwd.tiles,
                SP=SITES_PADDED,
                CHUNK=launch.chunk,
                TOKENS=launch.deferred_tokens,
                SLICES=launch.slices,
                STAGES=launch.deferred_stages,
                DOT=dot_dtype(fwd.sources.dtype),
                HAS_OLD=block.num_old > 0,
                GATED=gates is not None,
                ACCUMULATE=block.num_old > 0 and sites.stop < self.num_sites,
                TMA=launch.tma,
                num_warps=launch.block_warps,
            )
        sum_of_programs(of_folded, self.of_folded[sites.start : sites.stop])
        for site in sites:
            del self.of_sites[site]

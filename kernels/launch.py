"""Launch parameters: one table by shape and architecture. Nothing is tuned at run time.

Equal seeds must give equal bits, and a parameter that moves with the noise of a measurement would change
the order of sums. The values were measured on one H200; cards before Hopper take the same ones without
TMA, by rule.
"""

import os
from dataclasses import dataclass

import torch
import triton.language as tl
from torch import Tensor

from headcount.kernels.tiles import Tiles

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

BLOCK_SITES = (
    8  # twice this many operand rows fill one matrix instruction; more sites would cost a second one
)
SITES_PADDED = 8  # the kernels' tiles have room for this many sites
SLICE = 128  # of a head's width, as much as the registers of a warp hold of a tile of sources
SLICED_HEADS = (256, 512, 1024)  # 8 warps take all registers of a multiprocessor
LARGEST_TILED_HEAD = 512  # of other widths; a wider tile spills: measured slower than one site at a time


@dataclass(frozen=True)
class Launch:
    """How the kernels of one shape are launched; belongs in a training attempt's environment."""

    one_site: bool  # each site goes by itself, as the block kernels would be slower
    block_sites: int
    tma: bool
    chunk: int
    partial_tokens: int
    partial_stages: int
    deferred_tokens: int
    deferred_stages: int
    block_warps: int
    slices: int  # of a head's width, one a warp
    merge_warps: int
    merge_stages: int
    finalise_warps: int
    norm_warps: int
    norm_tokens: int


@dataclass(frozen=True)
class SiteLaunch:
    """How the two kernels of the fused implementation are launched."""

    forward_warps: int
    forward_stages: int
    backward_warps: int
    backward_stages: int
    backward_tokens: int


def launch_for(tiles: Tiles, source: Tensor) -> Launch:
    """The row of two_phase for histories of sources like `source` [..., d]."""
    tokens = source.numel() // tiles.D
    head_width = tiles.DA + tiles.DB
    one_tile = tiles.DB == 0
    return Launch(
        one_site=one_site_at_a_time(tiles, source),
        block_sites=BLOCK_SITES,
        tma=_has_tma(tiles, source),
        chunk=16,
        partial_tokens=8,
        partial_stages=3,
        # a program holds a warp scheduler's registers, so fewer tokens each where one wave would not be full
        deferred_tokens=32 if tokens * tiles.H >= 1 << 15 else 16,
        deferred_stages=2 if tiles.D > 512 else 3,
        block_warps=max(1, min(8, head_width // SLICE)),
        slices=head_width // SLICE if tiles.DH in SLICED_HEADS else 1,
        merge_warps=8 if tiles.D > 2048 else (2 if tiles.D > 512 and one_tile else 1),
        merge_stages=3,
        finalise_warps=8 if tiles.D > 2048 else (4 if tiles.D > 512 else 2),
        norm_warps=max(1, min(8, tiles.D // 512)),
        norm_tokens=8 if tokens >= 1 << 14 or tiles.D > 2048 else 4,
    )


def one_site_at_a_time(tiles: Tiles, source: Tensor) -> bool:
    """Whether the block kernels would be slower: heads too wide for a tile, or float32, which has no exact
    matrix instructions.
    """
    too_wide = tiles.DH not in SLICED_HEADS and tiles.DA + tiles.DB > LARGEST_TILED_HEAD
    return too_wide or (source.is_cuda and source.dtype == torch.float32)


def site_launch_for(tiles: Tiles) -> SiteLaunch:
    """The row for one site's read of width `tiles.D`."""
    if tiles.D > 2048:
        return SiteLaunch(8, 4, 8, 3, 1)
    return SiteLaunch(2, 3, 2, 4, 2) if tiles.D > 512 else SiteLaunch(1, 4, 2, 4, 2)


def dot_dtype(dtype: torch.dtype) -> tl.dtype:
    """What matrix products take: the sources' dtype, but float32 in the interpreter, which has no
    bfloat16.
    """
    if INTERPRETED or dtype == torch.float32:
        return tl.float32
    return tl.bfloat16 if dtype == torch.bfloat16 else tl.float16


def _has_tma(tiles: Tiles, source: Tensor) -> bool:
    """Whether the tensor memory accelerator can fetch a head's tiles: Hopper on, exact widths, 32-bit
    coordinates.
    """
    if not source.is_cuda or torch.cuda.get_device_capability(source.device) < (9, 0):
        return False
    exact = tiles.DH == tiles.DA + tiles.DB
    return exact and source.numel() < 1 << 31 and source.numel() * source.element_size() % 16 == 0

"""How a token's vector lies in a kernel's registers: head slices, each as two tiles of power-of-two width.

A head slice of any width is a main tile, the largest power of two within it, and a rest tile padded to
the next (160 = 128 + 32). Padding the whole slice instead (160 to 256) costs up to 1.6 times the time.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import NamedTuple

import triton
import triton.language as tl

MMA_DEPTH = 16
LOG2E = tl.constexpr(1.4426950408889634)


class Tiles(NamedTuple):
    """The constants of one shape, which most kernels take."""

    D: int  # width of a source
    H: int  # routing heads
    DH: int  # width of a head's slice
    DA: int  # width of the main tile
    DB: int  # width of the rest tile, 0 when there is none

    @classmethod
    def of(cls, width: int, heads: int) -> "Tiles":
        head_width = width // heads
        main = max(MMA_DEPTH, 1 << (head_width.bit_length() - 1))
        rest = head_width - main
        padded = max(MMA_DEPTH, triton.next_power_of_2(rest)) if rest > 0 else 0
        return cls(width, heads, head_width, main, padded)


@triton.jit
def head_offsets(TILES: tl.constexpr):
    """Offsets and masks in one token's vector, all heads: o_h [HP], o_a [HP, DA], o_b [HP, DB], m_h, m_a,
    m_b.
    """
    o_h = tl.arange(0, triton.next_power_of_2(TILES.H))
    c_a = tl.arange(0, TILES.DA)
    c_b = TILES.DA + tl.arange(0, TILES.DB if TILES.DB > 0 else 1)
    m_h = o_h < TILES.H
    o_a = o_h[:, None] * TILES.DH + c_a[None, :]
    o_b = o_h[:, None] * TILES.DH + c_b[None, :]
    m_a = m_h[:, None] & (c_a[None, :] < TILES.DH)
    m_b = m_h[:, None] & (c_b[None, :] < TILES.DH)
    return o_h, o_a, o_b, m_h, m_a, m_b


@triton.jit
def load_row(row, o_a, o_b, m_a, m_b, DB: tl.constexpr):
    """One token's vector in float32, as its two tiles."""
    a = tl.load(row + o_a, mask=m_a, other=0.0).to(tl.float32)
    b = tl.zeros(o_b.shape, tl.float32)
    if DB > 0:
        b = tl.load(row + o_b, mask=m_b, other=0.0).to(tl.float32)
    return a, b


@triton.jit
def store_row(row, a, b, o_a, o_b, m_a, m_b, DB: tl.constexpr):
    tl.store(row + o_a, a.to(row.dtype.element_ty), mask=m_a)
    if DB > 0:
        tl.store(row + o_b, b.to(row.dtype.element_ty), mask=m_b)


@triton.jit
def dot_by_head(x_a, x_b, y_a, y_b, DB: tl.constexpr):
    """<x, y> for each head: [HP]."""
    total = tl.sum(x_a * y_a, 1)
    if DB > 0:
        total += tl.sum(x_b * y_b, 1)
    return total

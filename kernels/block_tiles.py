"""The tiles of the block kernels: rows of one head's width, loaded, stored, turned and summed.

A main tile is [n, DA] or, where a head is cut into SLICES of equal width, [SLICES, n, DA / SLICES]: its
products are batched, one slice a warp, as the registers of one hold no more.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def columns_of(DA: tl.constexpr, DB: tl.constexpr, SLICES: tl.constexpr):
    """Column offsets in a head: of its main tile, by slice if it has several, and of its rest tile."""
    if SLICES > 1:
        width: tl.constexpr = DA // SLICES
        c_a = tl.arange(0, SLICES)[:, None] * width + tl.arange(0, width)[None, :]
    else:
        c_a = tl.arange(0, DA)
    return c_a, DA + tl.arange(0, DB if DB > 0 else 1)


@triton.jit
def addresses_of(rows, m, c, DH: tl.constexpr, SLICES: tl.constexpr):
    """Addresses and mask of a tile: columns c of each row [n] that m [n] allows."""
    if SLICES > 1:
        addresses = rows[None, :, None] + c[:, None, :]
        mask = m[None, :, None] & (c < DH)[:, None, :]
    else:
        addresses = rows[:, None] + c[None, :]
        mask = m[:, None] & (c[None, :] < DH)
    return addresses, mask


@triton.jit
def load_tile(rows, m, c_a, c_b, DH: tl.constexpr, DB: tl.constexpr, SLICES: tl.constexpr):
    """One head's slice of each row [n], as the tiles [n, DA] and [n, DB]; zero where m [n] is false."""
    addresses, mask = addresses_of(rows, m, c_a, DH, SLICES)
    a = tl.load(addresses, mask=mask, other=0.0)
    if DB > 0:
        addresses, mask = addresses_of(rows, m, c_b, DH, 1)
        b = tl.load(addresses, mask=mask, other=0.0)
    else:
        b = a
    return a, b


@triton.jit
def store_tile(rows, a, b, m, c_a, c_b, DH: tl.constexpr, DB: tl.constexpr, SLICES: tl.constexpr):
    dtype = rows.dtype.element_ty
    addresses, mask = addresses_of(rows, m, c_a, DH, SLICES)
    tl.store(addresses, a.to(dtype), mask=mask)
    if DB > 0:
        addresses, mask = addresses_of(rows, m, c_b, DH, 1)
        tl.store(addresses, b.to(dtype), mask=mask)


@triton.jit
def load_chunk(P, P_A, P_B, rows, m, i_0, column, c_a, c_b, DA, DH, DB, SLICES, TMA: tl.constexpr):
    """A tile of sources from i_0 on, at one token and head."""
    if TMA:
        a = P_A.load([column // (DA // SLICES), i_0, 0]) if SLICES > 1 else P_A.load([i_0, column])
        b = P_B.load([i_0, column + DA]) if DB > 0 else a
    else:
        a, b = load_tile(P + rows, m, c_a, c_b, DH, DB, SLICES)
    return a, b


@triton.jit
def store_chunk(P, P_A, P_B, a, b, rows, m, i_0, column, c_a, c_b, DA, DH, DB, SLICES, TMA: tl.constexpr):
    if TMA:
        if SLICES > 1:
            P_A.store([column // (DA // SLICES), i_0, 0], a.to(P_A.dtype))
        else:
            P_A.store([i_0, column], a.to(P_A.dtype))
        if DB > 0:
            P_B.store([i_0, column + DA], b.to(P_B.dtype))
    else:
        store_tile(P + rows, a, b, m, c_a, c_b, DH, DB, SLICES)


@triton.jit
def turned(tile, SLICES: tl.constexpr):
    return tl.permute(tile, (0, 2, 1)) if SLICES > 1 else tl.trans(tile)


@triton.jit
def for_slices(tile, SLICES: tl.constexpr):
    """The same tile for each slice."""
    if SLICES > 1:
        tile = tl.broadcast_to(tile[None, :, :], [SLICES, tile.shape[0], tile.shape[1]])
    return tile


@triton.jit
def over_slices(tile, SLICES: tl.constexpr):
    """The sum of the slices' parts."""
    return tl.sum(tile, 0) if SLICES > 1 else tile


@triton.jit
def no_sums(DA: tl.constexpr, SP: tl.constexpr, SLICES: tl.constexpr):
    """A tile of zeros [DA, SP], by slice."""
    if SLICES > 1:
        width: tl.constexpr = DA // SLICES
        sums = tl.zeros([SLICES, width, SP], tl.float32)
    else:
        sums = tl.zeros([DA, SP], tl.float32)
    return sums

"""Kernels of one site alone, over sources anywhere in memory: forward and backward, one program for a few
tokens.

TABLE holds the addresses of the sources. Prefixes as in row_kernels.py.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from headcount.kernels.row_kernels import softmax_step
from headcount.kernels.tiles import LOG2E, dot_by_head, head_offsets, load_row, store_row

ADDRESSES = 16
_NAMES = ["i_first", "num_sources"] + [f"a{k}" for k in range(ADDRESSES)]


@triton.jit(do_not_specialize=_NAMES)
def table_kernel(
    TABLE,
    i_first,
    num_sources,
    a0,
    a1,
    a2,
    a3,
    a4,
    a5,
    a6,
    a7,
    a8,
    a9,
    a10,
    a11,
    a12,
    a13,
    a14,
    a15,
):
    """Write addresses given as arguments: no copy from the host, which a CUDA graph would freeze."""
    addresses = (a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15)
    for k in tl.static_range(16):
        if i_first + k < num_sources:
            tl.store(TABLE + i_first + k, addresses[k].to(tl.int64))


@triton.jit
def source_row(TABLE, i, like, D: tl.constexpr):
    """Source i, as a pointer to the element type of `like`."""
    row = tl.load(TABLE + i).to(tl.pointer_type(like.dtype.element_ty))
    if D % 8 == 0:
        row = tl.multiple_of(row, 16)
    return row


@triton.jit(do_not_specialize=["num_sources"])
def site_forward_kernel(
    TABLE,
    W,  # [d] the folded query
    OUT,  # [T, d]
    LSE,  # [T, H]
    num_sources,
    eps,
    TILES: tl.constexpr,
    STAGES: tl.constexpr,
):
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    w_a, w_b = load_row(W, o_a, o_b, m_a, m_b, TILES.DB)
    m = tl.full(o_h.shape, float("-inf"), tl.float32)
    s = tl.zeros(o_h.shape, tl.float32)
    acc_a = tl.zeros(o_a.shape, tl.float32)
    acc_b = tl.zeros(o_b.shape, tl.float32)
    for i in tl.range(0, num_sources, num_stages=STAGES):
        v_a, v_b = load_row(source_row(TABLE, i, OUT, TILES.D) + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        r = tl.rsqrt(tl.sum(dot_by_head(v_a, v_b, v_a, v_b, TILES.DB), 0) / TILES.D + eps) * LOG2E
        z = dot_by_head(v_a, v_b, w_a, w_b, TILES.DB) * r
        m, s, acc_a, acc_b = softmax_step(v_a, v_b, z, m, s, acc_a, acc_b)
    scale = (1.0 / s)[:, None]
    store_row(OUT + i_t * TILES.D, acc_a * scale, acc_b * scale, o_a, o_b, m_a, m_b, TILES.DB)
    tl.store(LSE + i_t * TILES.H + o_h, m + tl.log2(s), mask=m_h)


@triton.jit(do_not_specialize=["T", "num_sources"])
def site_backward_kernel(
    TABLE,
    W,  # [d]
    G,  # [T, d]
    OUT,  # [T, d]
    LSE,  # [T, H]
    DV,  # [num_sources, T, d]
    DW,  # [programs, d] float32
    T,
    num_sources,
    eps,
    TILES: tl.constexpr,
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
    ACCUMULATE: tl.constexpr,  # add to DV, else write it
):
    i_p = tl.program_id(0)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    w_a, w_b = load_row(W, o_a, o_b, m_a, m_b, TILES.DB)
    dw_a = tl.zeros(o_a.shape, tl.float32)
    dw_b = tl.zeros(o_b.shape, tl.float32)
    i_first = i_p.to(tl.int64) * TOKENS
    for k in range(tl.minimum(TOKENS, T - i_first)):
        i_t = i_first + k
        g_a, g_b = load_row(G + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        out_a, out_b = load_row(OUT + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        delta = dot_by_head(g_a, g_b, out_a, out_b, TILES.DB)
        lse = tl.load(LSE + i_t * TILES.H + o_h, mask=m_h, other=float("inf"))
        for n in tl.range(0, num_sources, num_stages=STAGES):
            v_a, v_b = load_row(
                source_row(TABLE, n, OUT, TILES.D) + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB
            )
            r = tl.rsqrt(tl.sum(dot_by_head(v_a, v_b, v_a, v_b, TILES.DB), 0) / TILES.D + eps)
            z = dot_by_head(v_a, v_b, w_a, w_b, TILES.DB) * r
            a = tl.exp2(z * LOG2E - lse)
            p = a * (dot_by_head(v_a, v_b, g_a, g_b, TILES.DB) - delta)
            norm = tl.sum(p * z, 0) * r * r / TILES.D
            p = p * r
            dv_a = g_a * a[:, None]
            dv_a += w_a * p[:, None]
            dv_b = g_b * a[:, None]
            dv_b += w_b * p[:, None]
            row = DV + (n * T + i_t) * TILES.D
            if ACCUMULATE:
                old_a, old_b = load_row(row, o_a, o_b, m_a, m_b, TILES.DB)
                dv_a += old_a
                dv_b += old_b
            store_row(row, dv_a - v_a * norm, dv_b - v_b * norm, o_a, o_b, m_a, m_b, TILES.DB)
            dw_a += v_a * p[:, None]
            dw_b += v_b * p[:, None]
    store_row(DW + i_p.to(tl.int64) * TILES.D, dw_a, dw_b, o_a, o_b, m_a, m_b, TILES.DB)

"""Kernels of the RMSNorm that follows a site's read; the forward's is part of merge_kernel where that runs.

One program holds whole vectors, as in row_kernels.py; X is the read, in the sources' dtype.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from headcount.kernels.tiles import dot_by_head, head_offsets, load_row, store_row


@triton.jit
def store_normed(row, NORM_W, norm_eps, x_a, x_b, o_a, o_b, m_a, m_b, D: tl.constexpr, DB: tl.constexpr):
    """Store x / rms(x) · weight at `row`."""
    r = tl.rsqrt(tl.sum(dot_by_head(x_a, x_b, x_a, x_b, DB), 0) / D + norm_eps)
    n_a, n_b = load_row(NORM_W, o_a, o_b, m_a, m_b, DB)
    store_row(row, x_a * r * n_a, x_b * r * n_b, o_a, o_b, m_a, m_b, DB)


@triton.jit
def norm_forward_kernel(
    X,  # [T, d]
    NORM_W,  # [d]
    NORMED,  # [T, d]
    norm_eps,
    TILES: tl.constexpr,
):
    i_t = tl.program_id(0).to(tl.int64)
    _, o_a, o_b, _, m_a, m_b = head_offsets(TILES)
    x_a, x_b = load_row(X + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    store_normed(NORMED + i_t * TILES.D, NORM_W, norm_eps, x_a, x_b, o_a, o_b, m_a, m_b, TILES.D, TILES.DB)


@triton.jit(do_not_specialize=["T"])
def norm_backward_kernel(
    X,  # [T, d]
    NORM_W,  # [d]
    G_NORMED,  # [T, d], the gradient of the normed read
    G,  # [T, d], receives the read's
    DELTA,  # [T, H], receives <G, X> of each head
    D_NORM_W,  # [programs, d] float32
    T,
    norm_eps,
    TILES: tl.constexpr,
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """With u = G_NORMED · weight and r = 1/rms(x): G = r u − r³/d <u, x> x."""
    i_p = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    n_a, n_b = load_row(NORM_W, o_a, o_b, m_a, m_b, TILES.DB)
    dn_a = tl.zeros(o_a.shape, tl.float32)
    dn_b = tl.zeros(o_b.shape, tl.float32)
    i_first = i_p * TOKENS
    for k in tl.range(0, tl.minimum(TOKENS, T - i_first), num_stages=STAGES):
        i_t = i_first + k
        x_a, x_b = load_row(X + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        u_a, u_b = load_row(G_NORMED + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        r = tl.rsqrt(tl.sum(dot_by_head(x_a, x_b, x_a, x_b, TILES.DB), 0) / TILES.D + norm_eps)
        dn_a += u_a * x_a * r
        dn_b += u_b * x_b * r
        u_a *= n_a
        u_b *= n_b
        c = tl.sum(dot_by_head(u_a, u_b, x_a, x_b, TILES.DB), 0) * r * r / TILES.D
        # as rounded, since what is subtracted from <g, v> must be a mean of it
        g_a = ((u_a - x_a * c) * r).to(G.dtype.element_ty)
        g_b = ((u_b - x_b * c) * r).to(G.dtype.element_ty)
        store_row(G + i_t * TILES.D, g_a, g_b, o_a, o_b, m_a, m_b, TILES.DB)
        delta = dot_by_head(g_a.to(tl.float32), g_b.to(tl.float32), x_a, x_b, TILES.DB)
        tl.store(DELTA + i_t * TILES.H + o_h, delta, mask=m_h)
    store_row(D_NORM_W + i_p * TILES.D, dn_a, dn_b, o_a, o_b, m_a, m_b, TILES.DB)

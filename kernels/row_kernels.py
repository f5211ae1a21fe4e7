"""Kernels in which one program holds one token's whole vector, all heads: reductions stay within the program.

Prefixes: i_ index, o_ offsets, m_ mask, c_ column offsets in a tile; V [N, T, d] sources, W [N, d] folded
queries in the sources' dtype, R [T, RS] inverse rms (source fastest), LSE base-2 log-sum-exp. A head is
two tiles (tiles.py). Sums of two products into a tile are two statements: as one, the compiler moves the
tile through shared memory to another layout, and the kernel takes 1.4 times as long.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from headcount.kernels.norm_kernels import store_normed
from headcount.kernels.tiles import LOG2E, dot_by_head, head_offsets, load_row, store_row


@triton.jit(do_not_specialize=["T", "i_source"])
def write_kernel(
    X,  # [T, d] the new source
    V,
    R,
    T,
    i_source,
    RS,
    eps,
    D: tl.constexpr,
    BD: tl.constexpr,
    COPY: tl.constexpr,  # else X is the source's place in V
):
    """Copy a new source into the history and store its inverse rms."""
    i_t = tl.program_id(0).to(tl.int64)
    o = tl.arange(0, BD)
    x = tl.load(X + i_t * D + o, mask=o < D, other=0.0)
    if COPY:
        tl.store(V + (i_source * T + i_t) * D + o, x, mask=o < D)
    x = x.to(tl.float32)
    tl.store(R + i_t * RS + i_source, tl.rsqrt(tl.sum(x * x, 0) / D + eps))


@triton.jit
def softmax_step(v_a, v_b, z, m, s, acc_a, acc_b):
    """Take one more source into an online softmax: running maximum m, sum s and mixture acc, for each
    head.
    """
    m_new = tl.maximum(m, z)
    scale = tl.exp2(m - m_new)
    p = tl.exp2(z - m_new)
    acc_a = acc_a * scale[:, None] + v_a * p[:, None]
    acc_b = acc_b * scale[:, None] + v_b * p[:, None]
    return m_new, s * scale + p, acc_a, acc_b


@triton.jit(do_not_specialize=["T", "i_site", "i_slot", "i_first"])
def merge_kernel(
    V,
    W,
    R,
    OUT,  # [sites of the block, T, d]: holds the site's partial result, receives the result
    LSE,  # [sites of the block, T, H], likewise
    NORM_W,  # [d], where the read is normed
    NORMED,  # [T, d], receives the normed read
    T,
    i_site,
    i_slot,  # the site's place in its block
    i_first,  # the block's first source that the partial results leave out
    RS,
    eps,
    norm_eps,
    TILES: tl.constexpr,
    HAS_PARTIAL: tl.constexpr,
    HAS_NORM: tl.constexpr,  # the newest source's inverse rms is in R; else it is computed and stored here
    IS_NORMED: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Forward of one site: merge sources i_first..i_site into its partial result over the older ones, the
    newest first."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    w_a, w_b = load_row(W + i_site * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    row = i_slot * T + i_t
    if HAS_PARTIAL:
        acc_a, acc_b = load_row(OUT + row * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        m = tl.load(LSE + row * TILES.H + o_h, mask=m_h, other=0.0)
        s = tl.full(o_h.shape, 1.0, tl.float32)
    else:
        acc_a = tl.zeros(o_a.shape, tl.float32)
        acc_b = tl.zeros(o_b.shape, tl.float32)
        m = tl.full(o_h.shape, float("-inf"), tl.float32)
        s = tl.zeros(o_h.shape, tl.float32)
    v_a, v_b = load_row(V + (i_site * T + i_t) * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    if HAS_NORM:
        r = tl.load(R + i_t * RS + i_site)
    else:
        r = tl.rsqrt(tl.sum(dot_by_head(v_a, v_b, v_a, v_b, TILES.DB), 0) / TILES.D + eps)
        tl.store(R + i_t * RS + i_site, r)
    z = dot_by_head(v_a, v_b, w_a, w_b, TILES.DB) * (r * LOG2E)
    m, s, acc_a, acc_b = softmax_step(v_a, v_b, z, m, s, acc_a, acc_b)
    for i in tl.range(i_first, i_site, num_stages=STAGES):
        v_a, v_b = load_row(V + (i * T + i_t) * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        r = tl.load(R + i_t * RS + i) * LOG2E
        z = dot_by_head(v_a, v_b, w_a, w_b, TILES.DB) * r
        m, s, acc_a, acc_b = softmax_step(v_a, v_b, z, m, s, acc_a, acc_b)
    scale = (1.0 / s)[:, None]
    out_a = (acc_a * scale).to(OUT.dtype.element_ty)
    out_b = (acc_b * scale).to(OUT.dtype.element_ty)
    store_row(OUT + row * TILES.D, out_a, out_b, o_a, o_b, m_a, m_b, TILES.DB)
    tl.store(LSE + row * TILES.H + o_h, m + tl.log2(s), mask=m_h)
    if IS_NORMED:
        out_a = out_a.to(tl.float32)
        out_b = out_b.to(tl.float32)
        store_normed(
            NORMED + i_t * TILES.D, NORM_W, norm_eps, out_a, out_b, o_a, o_b, m_a, m_b, TILES.D, TILES.DB
        )


@triton.jit(do_not_specialize=["T", "i_slot"])
def delta_kernel(
    G,  # [T, d] the gradient of one site
    OUT,  # [sites of the block, T, d]
    DELTA,  # [sites of the block, T, H]
    T,
    i_slot,  # the site's place in its block
    TILES: tl.constexpr,
):
    """<g, out> of a block's first site; finalise_kernel stores it for the others."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    g_a, g_b = load_row(G + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    out_a, out_b = load_row(OUT + (i_slot * T + i_t) * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    tl.store(
        DELTA + (i_slot * T + i_t) * TILES.H + o_h, dot_by_head(g_a, g_b, out_a, out_b, TILES.DB), mask=m_h
    )


@triton.jit(do_not_specialize=["T", "i_source", "i_slot"])
def finalise_kernel(
    V,
    W,
    R,
    G,  # tuple of [T, d]: the gradients of the block's sites i_source, i_source + 1, ...
    OUT,  # [sites of the block, T, d]
    LSE,  # [sites of the block, T, H]
    DELTA,  # [sites of the block, T, H]: <g, out>, times the site's gate; the newest site's is stored here
    GATES,  # [sites] float32, where sites have gates: the gradient of a mixture is gate · g
    DV,  # [N, T, d]: what later blocks deferred, receives the finished gradient
    C,  # [T, H, RS]: what later blocks deferred of Σ p z
    T,
    i_source,
    i_slot,  # the place of site i_source in its block
    RS,
    TILES: tl.constexpr,
    SITES: tl.constexpr,  # number of gradients in G
    HAS_DELTA: tl.constexpr,  # the newest site's DELTA is there
    HAS_DEFERRED: tl.constexpr,
    GATED: tl.constexpr,
):
    """Backward, gradient of one source: what was deferred, plus the reads of it within its own block."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    row = (i_source * T + i_t) * TILES.D
    v_a, v_b = load_row(V + row, o_a, o_b, m_a, m_b, TILES.DB)
    r = tl.load(R + i_t * RS + i_source)
    if HAS_DEFERRED:
        dv_a, dv_b = load_row(DV + row, o_a, o_b, m_a, m_b, TILES.DB)
        pz = tl.load(C + (i_t * TILES.H + o_h) * RS + i_source, mask=m_h, other=0.0)
    else:
        dv_a = tl.zeros(o_a.shape, tl.float32)
        dv_b = tl.zeros(o_b.shape, tl.float32)
        pz = tl.zeros(o_h.shape, tl.float32)
    for k in tl.static_range(SITES):
        w_a, w_b = load_row(W + (i_source + k) * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        g_a, g_b = load_row(G[k] + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        o_site = ((i_slot + k) * T + i_t) * TILES.H + o_h
        lse = tl.load(LSE + o_site, mask=m_h, other=float("inf"))
        if GATED:
            gate = tl.load(GATES + i_source + k)
            g_a *= gate
            g_b *= gate
        if k == 0 and not HAS_DELTA:
            out_a, out_b = load_row(OUT + (i_slot * T + i_t) * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
            delta = dot_by_head(g_a, g_b, out_a, out_b, TILES.DB)
            tl.store(DELTA + o_site, delta, mask=m_h)
        else:
            delta = tl.load(DELTA + o_site, mask=m_h, other=0.0)
        z = dot_by_head(v_a, v_b, w_a, w_b, TILES.DB) * r
        a = tl.exp2(z * LOG2E - lse)
        p = a * (dot_by_head(v_a, v_b, g_a, g_b, TILES.DB) - delta)
        pz += p * z
        p = p * r
        dv_a += g_a * a[:, None]
        dv_a += w_a * p[:, None]
        dv_b += g_b * a[:, None]
        dv_b += w_b * p[:, None]
    norm = tl.sum(pz, 0) * r * r / TILES.D
    store_row(DV + row, dv_a - v_a * norm, dv_b - v_b * norm, o_a, o_b, m_a, m_b, TILES.DB)

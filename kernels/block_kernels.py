"""Kernels in which one program takes a few tokens and one head, and all sites of a block at once.

For one token and head this is attention along the depth: a tile of CHUNK sources by the head's width
meets the block's queries (and, backward, its gradients) in matrix products. Tokens and chunks form one
loop, so that the loads of the next chunk, in flight while this one is computed, cross from token to
token. SP is the number of sites padded.

With TMA, tiles come through tensor-map descriptors (V_A and V_B for the two tiles of a head, over
[sources, T·d]), which need few registers and return zero beyond their last source; else through pointers
and masks. Memory beyond the sources asked for may be uninitialised. Prefixes and buffers as in
row_kernels.py.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from headcount.kernels.block_tiles import (
    columns_of,
    for_slices,
    load_chunk,
    load_tile,
    no_sums,
    over_slices,
    store_chunk,
    store_tile,
    turned,
)
from headcount.kernels.tiles import LOG2E


@triton.jit(do_not_specialize=["T", "i_site", "num_sites", "num_old"])
def partial_kernel(
    V,
    V_A,
    V_B,
    W,
    R,
    OUT,  # [sites of the block, T, d]
    LSE,  # [sites of the block, T, H]
    T,
    i_site,  # the block's first site
    num_sites,
    num_old,  # sources 0..num_old-1 are read
    RS,
    TILES: tl.constexpr,
    SP: tl.constexpr,
    CHUNK: tl.constexpr,
    TOKENS: tl.constexpr,
    SLICES: tl.constexpr,
    STAGES: tl.constexpr,
    DOT: tl.constexpr,
    TMA: tl.constexpr,
):
    """Forward, phase one: the softmax of every site of a block over the sources older than the block.

    Results are normalised, so that they stay a mixture of sources when rounded.
    """
    i_h = tl.program_id(0) % TILES.H
    i_first = tl.program_id(0) // TILES.H * TOKENS
    o_s = tl.arange(0, SP)
    m_s = o_s < num_sites
    c_a, c_b = columns_of(TILES.DA, TILES.DB, SLICES)
    w_a, w_b = load_tile(
        W + (i_site + o_s) * TILES.D + i_h * TILES.DH, m_s, c_a, c_b, TILES.DH, TILES.DB, SLICES
    )
    w_a = turned(w_a.to(DOT), SLICES)
    w_b = tl.trans(w_b.to(DOT))
    m = tl.full([SP], float("-inf"), tl.float32)
    s = tl.zeros([SP], tl.float32)
    acc_a = no_sums(TILES.DA, SP, SLICES)
    acc_b = no_sums(TILES.DB if TILES.DB > 0 else 1, SP, 1)
    num_chunks = tl.cdiv(num_old, CHUNK)
    for j in tl.range(0, tl.minimum(TOKENS, T - i_first) * num_chunks, num_stages=STAGES):
        i_t = i_first + j // num_chunks
        i_0 = j % num_chunks * CHUNK
        column = i_t * TILES.D + i_h * TILES.DH
        o_i = i_0 + tl.arange(0, CHUNK)
        m_i = o_i < num_old
        rows = (o_i.to(tl.int64) * T + i_t) * TILES.D + i_h * TILES.DH
        v_a, v_b = load_chunk(
            V, V_A, V_B, rows, m_i, i_0, column, c_a, c_b, TILES.DA, TILES.DH, TILES.DB, SLICES, TMA
        )
        v_a = v_a.to(DOT)
        r = tl.load(R + i_t * RS + o_i, mask=m_i, other=0.0) * LOG2E
        z = over_slices(tl.dot(v_a, w_a, input_precision="ieee"), SLICES)
        if TILES.DB > 0:
            v_b = v_b.to(DOT)
            z = tl.dot(v_b, w_b, z, input_precision="ieee")
        z = tl.where(m_i[:, None], z * r[:, None], float("-inf"))
        m = tl.where(i_0 == 0, float("-inf"), m)
        m_new = tl.maximum(m, tl.max(z, 0))
        p = tl.exp2(z - m_new[None, :])
        scale = tl.exp2(m - m_new)
        s = s * scale + tl.sum(p, 0)
        p = p.to(DOT)
        acc_a = tl.dot(
            turned(v_a, SLICES), for_slices(p, SLICES), acc_a * scale[None, :], input_precision="ieee"
        )
        if TILES.DB > 0:
            acc_b = tl.dot(tl.trans(v_b), p, acc_b * scale[None, :], input_precision="ieee")
        m = m_new
        if i_0 + CHUNK >= num_old:
            norm = (1.0 / s)[None, :]
            o_site = o_s.to(tl.int64) * T + i_t
            out = OUT + o_site * TILES.D + i_h * TILES.DH
            out_a = turned(acc_a * norm, SLICES)
            store_tile(out, out_a, tl.trans(acc_b * norm), m_s, c_a, c_b, TILES.DH, TILES.DB, SLICES)
            tl.store(LSE + o_site * TILES.H + i_h, m + tl.log2(s), mask=m_s)


@triton.jit(
    do_not_specialize=["T", "i_site", "num_sites", "num_old", "num_all", "i_newest"]
    + [f"g{k}" for k in range(8)]
)
def deferred_kernel(
    V,
    V_A,
    V_B,
    W,
    R,
    g0,  # addresses of the [T, d] gradients of the block's sites; those beyond num_sites are not read
    g1,
    g2,
    g3,
    g4,
    g5,
    g6,
    g7,
    LSE,  # [sites of the block, T, H]
    DELTA,  # [sites of the block, T, H]: <g, out>, times the site's gate
    GATES,  # [sites] float32, where sites have gates: the gradient of a mixture is gate · g
    DV,  # [N, T, d]
    DV_A,
    DV_B,
    C,  # [T, H, RS]: Σ p z
    DW,  # [programs along T, num_sites, d] float32
    T,
    i_site,  # the block's first site
    num_sites,
    num_old,  # sources 0..num_old-1 receive gradient; the block's own only serve DW
    num_all,  # sources 0..num_all-1 are read by the block's last site
    i_newest,  # the newest source that its first site reads; each later site reads one more, up to num_all
    RS,
    TILES: tl.constexpr,
    SP: tl.constexpr,
    CHUNK: tl.constexpr,
    TOKENS: tl.constexpr,
    SLICES: tl.constexpr,
    STAGES: tl.constexpr,
    DOT: tl.constexpr,
    HAS_OLD: tl.constexpr,
    GATED: tl.constexpr,
    ACCUMULATE: tl.constexpr,  # add to DV and C, else they are written for the first time
    TMA: tl.constexpr,
):
    """Backward of a whole block, once all its gradients are there: into the older sources and its own
    queries.

    The operand wg [2·SP, head width] holds the queries, then the gradients, of the block's sites at one
    token: one product gives the logits and <g, v> together, a second the whole gradient of a source.
    """
    i_h = tl.program_id(0) % TILES.H
    i_p = tl.program_id(0) // TILES.H
    i_first = i_p * TOKENS
    o_s = tl.arange(0, SP)
    m_s = o_s < num_sites
    o_2 = tl.arange(0, 2 * SP)
    o_slot = o_2 % SP
    is_g = o_2 >= SP
    c_a, c_b = columns_of(TILES.DA, TILES.DB, SLICES)
    address = tl.where(o_slot == 1, g1, g0)
    address = tl.where(o_slot == 2, g2, address)
    address = tl.where(o_slot == 3, g3, address)
    address = tl.where(o_slot == 4, g4, address)
    address = tl.where(o_slot == 5, g5, address)
    address = tl.where(o_slot == 6, g6, address)
    address = tl.where(o_slot == 7, g7, address)
    g_rows = tl.multiple_of(address.to(tl.int64).to(tl.pointer_type(V.dtype.element_ty)), 16)
    wg_rows = tl.where(is_g, g_rows, W + (i_site + o_slot) * TILES.D) + i_h * TILES.DH
    dw_a = no_sums(TILES.DA, SP, SLICES)
    dw_b = no_sums(TILES.DB if TILES.DB > 0 else 1, SP, 1)
    if GATED:
        gate = tl.load(GATES + i_site + o_s, mask=m_s, other=0.0)[None, :]
    num_chunks = tl.cdiv(num_all, CHUNK)
    for j in tl.range(0, tl.minimum(TOKENS, T - i_first) * num_chunks, num_stages=STAGES):
        i_t = i_first + j // num_chunks
        i_0 = j % num_chunks * CHUNK
        column = i_t * TILES.D + i_h * TILES.DH
        o_i = i_0 + tl.arange(0, CHUNK)
        m_i = o_i < num_all
        m_old = o_i < num_old
        rows = (o_i.to(tl.int64) * T + i_t) * TILES.D + i_h * TILES.DH
        # loaded again for each chunk, from the nearest cache: kept over chunks it would have to stay in
        # registers
        of_token = tl.where(is_g, i_t.to(tl.int64) * TILES.D, 0)
        wg_a, wg_b = load_tile(wg_rows + of_token, o_slot < num_sites, c_a, c_b, TILES.DH, TILES.DB, SLICES)
        wg_a = wg_a.to(DOT)
        wg_b = wg_b.to(DOT)
        o_site = (o_s.to(tl.int64) * T + i_t) * TILES.H + i_h
        lse = tl.load(LSE + o_site, mask=m_s, other=float("inf"))
        delta = tl.load(DELTA + o_site, mask=m_s, other=0.0)
        v_a, v_b = load_chunk(
            V, V_A, V_B, rows, m_i, i_0, column, c_a, c_b, TILES.DA, TILES.DH, TILES.DB, SLICES, TMA
        )
        v_a = v_a.to(DOT)
        p_c = C + (i_t.to(tl.int64) * TILES.H + i_h) * RS + o_i
        if ACCUMULATE:
            old_a, old_b = load_chunk(
                DV, DV_A, DV_B, rows, m_old, i_0, column, c_a, c_b, TILES.DA, TILES.DH, TILES.DB, SLICES, TMA
            )
            old_c = tl.load(p_c, mask=m_old, other=0.0)
        r = tl.load(R + i_t * RS + o_i, mask=m_i, other=0.0)
        ze = over_slices(tl.dot(v_a, turned(wg_a, SLICES), input_precision="ieee"), SLICES)
        if TILES.DB > 0:
            v_b = v_b.to(DOT)
            ze = tl.dot(v_b, tl.trans(wg_b), ze, input_precision="ieee")
        z, e = tl.split(tl.permute(tl.reshape(ze, [CHUNK, 2, SP]), (0, 2, 1)))
        z = z * r[:, None]
        sees = (o_i[:, None] <= (i_newest + o_s)[None, :]) & m_i[:, None] & m_s[None, :]
        a = tl.where(sees, tl.exp2(z * LOG2E - lse[None, :]), 0.0)
        if GATED:
            e *= gate
        p = a * (e - delta[None, :])
        c = tl.sum(p * z, 1)
        p = p * r[:, None]
        if GATED:
            a *= gate
        pa = tl.reshape(tl.permute(tl.join(p, a), (0, 2, 1)), [CHUNK, 2 * SP]).to(DOT)
        p = p.to(DOT)
        dw_a = tl.dot(turned(v_a, SLICES), for_slices(p, SLICES), dw_a, input_precision="ieee")
        if TILES.DB > 0:
            dw_b = tl.dot(tl.trans(v_b), p, dw_b, input_precision="ieee")
        if HAS_OLD:
            dv_a = tl.dot(for_slices(pa, SLICES), wg_a, input_precision="ieee")
            dv_b = dv_a
            if TILES.DB > 0:
                dv_b = tl.dot(pa, wg_b, input_precision="ieee")
            if ACCUMULATE:
                dv_a += old_a.to(tl.float32)
                if TILES.DB > 0:
                    dv_b += old_b.to(tl.float32)
                c += old_c
            store_chunk(
                DV,
                DV_A,
                DV_B,
                dv_a,
                dv_b,
                rows,
                m_old,
                i_0,
                column,
                c_a,
                c_b,
                TILES.DA,
                TILES.DH,
                TILES.DB,
                SLICES,
                TMA,
            )
            tl.store(p_c, c, mask=m_old)
    dw_rows = DW + (i_p * num_sites + o_s).to(tl.int64) * TILES.D + i_h * TILES.DH
    store_tile(dw_rows, turned(dw_a, SLICES), tl.trans(dw_b), m_s, c_a, c_b, TILES.DH, TILES.DB, SLICES)

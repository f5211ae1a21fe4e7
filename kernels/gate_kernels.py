"""Kernels of the delta form, in which a site's mixture takes in a null source of the site's own, the same for
all tokens, and is added to a running sum through a gate. One program holds whole vectors, as in
row_kernels.py.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from headcount.kernels.tiles import dot_by_head, head_offsets, load_row, store_row


@triton.jit(do_not_specialize=["T", "i_site", "i_slot"])
def gate_forward_kernel(
    BASE,  # [T, d] the running sum
    OUT,  # [sites of the block, T, d]: mixtures without the null source
    LSE,  # [sites of the block, T, H], takes in the null source
    NULLS,  # [sites, d]
    Z,  # [sites, H] float32: the null sources' logits, base 2
    GATES,  # [sites] float32
    X,  # [T, d], receives the gated sum
    T,
    i_site,
    i_slot,  # the site's place in its block
    TILES: tl.constexpr,
):
    """X = BASE + gate · ((1 − a) OUT + a null), with the null source's weight a = 2^(z − lse)."""
    i_t = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    gate = tl.load(GATES + i_site)
    z = tl.load(Z + i_site * TILES.H + o_h, mask=m_h, other=0.0)
    row = i_slot * T + i_t
    old = tl.load(LSE + row * TILES.H + o_h, mask=m_h, other=0.0)
    top = tl.maximum(old, z)
    lse = top + tl.log2(tl.exp2(old - top) + tl.exp2(z - top))
    tl.store(LSE + row * TILES.H + o_h, lse, mask=m_h)
    of_out = (gate * tl.exp2(old - lse))[:, None]
    of_null = (gate * tl.exp2(z - lse))[:, None]
    x_a, x_b = load_row(BASE + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    v_a, v_b = load_row(OUT + row * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    x_a += v_a * of_out
    x_b += v_b * of_out
    v_a, v_b = load_row(NULLS + i_site * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    x_a += v_a * of_null
    x_b += v_b * of_null
    store_row(X + i_t * TILES.D, x_a, x_b, o_a, o_b, m_a, m_b, TILES.DB)


@triton.jit(do_not_specialize=["T", "i_site", "i_slot"])
def gate_backward_kernel(
    G,  # [T, d] the gradient of X
    OUT,  # as in the forward
    LSE,  # with the null source
    NULLS,
    Z,
    GATES,
    DELTA,  # [sites of the block, T, H], receives gate · <G, mixture>
    SUMS,  # [programs, d + 2 H] float32: over tokens, a G, then of each head a (<G, null> − D) and D
    T,
    i_site,
    i_slot,
    TILES: tl.constexpr,
    TOKENS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """With a the null source's weight and D = <G, (1 − a) OUT + a null>, a head at a time."""
    i_p = tl.program_id(0).to(tl.int64)
    o_h, o_a, o_b, m_h, m_a, m_b = head_offsets(TILES)
    gate = tl.load(GATES + i_site)
    z = tl.load(Z + i_site * TILES.H + o_h, mask=m_h, other=0.0)
    n_a, n_b = load_row(NULLS + i_site * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
    u_a = tl.zeros(o_a.shape, tl.float32)
    u_b = tl.zeros(o_b.shape, tl.float32)
    of_logit = tl.zeros(o_h.shape, tl.float32)
    of_gate = tl.zeros(o_h.shape, tl.float32)
    i_first = i_p * TOKENS
    for k in tl.range(0, tl.minimum(TOKENS, T - i_first), num_stages=STAGES):
        i_t = i_first + k
        row = i_slot * T + i_t
        g_a, g_b = load_row(G + i_t * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        out_a, out_b = load_row(OUT + row * TILES.D, o_a, o_b, m_a, m_b, TILES.DB)
        a = tl.exp2(z - tl.load(LSE + row * TILES.H + o_h, mask=m_h, other=float("inf")))
        e_null = dot_by_head(g_a, g_b, n_a, n_b, TILES.DB)
        delta = (1.0 - a) * dot_by_head(g_a, g_b, out_a, out_b, TILES.DB) + a * e_null
        tl.store(DELTA + row * TILES.H + o_h, gate * delta, mask=m_h)
        u_a += g_a * a[:, None]
        u_b += g_b * a[:, None]
        of_logit += a * (e_null - delta)
        of_gate += delta
    sums = SUMS + i_p * (TILES.D + 2 * TILES.H)
    store_row(sums, u_a, u_b, o_a, o_b, m_a, m_b, TILES.DB)
    tl.store(sums + TILES.D + o_h, of_logit, mask=m_h)
    tl.store(sums + TILES.D + TILES.H + o_h, of_gate, mask=m_h)

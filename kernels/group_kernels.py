"""Kernels of one site that reads once for each of several groups: every source is loaded once for all of
them.

One program holds one token: a source's whole vector [BD], and the groups' queries and mixtures [GP, BD],
both padded to powers of two. Prefixes as in row_kernels.py; TABLE holds the addresses of the sources.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

from headcount.kernels.site_kernels import source_row
from headcount.kernels.tiles import LOG2E


@triton.jit(do_not_specialize=["num_sources"])
def group_forward_kernel(
    TABLE,
    W,  # [G, d] the folded queries
    OUT,  # [T, G, d]
    LSE,  # [T, G]
    num_sources,
    eps,
    G: tl.constexpr,
    D: tl.constexpr,
    GP: tl.constexpr,
    BD: tl.constexpr,
    STAGES: tl.constexpr,
):
    i_t = tl.program_id(0).to(tl.int64)
    o_g = tl.arange(0, GP)
    o_d = tl.arange(0, BD)
    m_g = o_g < G
    m_d = o_d < D
    o = o_g[:, None] * D + o_d[None, :]
    mask = m_g[:, None] & m_d[None, :]
    w = tl.load(W + o, mask=mask, other=0.0).to(tl.float32)
    m = tl.full([GP], float("-inf"), tl.float32)
    s = tl.zeros([GP], tl.float32)
    acc = tl.zeros([GP, BD], tl.float32)
    for n in tl.range(0, num_sources, num_stages=STAGES):
        v = tl.load(source_row(TABLE, n, OUT, D) + i_t * D + o_d, mask=m_d, other=0.0).to(tl.float32)
        r = tl.rsqrt(tl.sum(v * v, 0) / D + eps) * LOG2E
        z = tl.sum(w * v[None, :], 1) * r
        m_new = tl.maximum(m, z)
        scale = tl.exp2(m - m_new)
        p = tl.exp2(z - m_new)
        acc = acc * scale[:, None] + p[:, None] * v[None, :]
        s = s * scale + p
        m = m_new
    tl.store(OUT + i_t * G * D + o, (acc / s[:, None]).to(OUT.dtype.element_ty), mask=mask)
    tl.store(LSE + i_t * G + o_g, m + tl.log2(s), mask=m_g)


@triton.jit(do_not_specialize=["T", "num_sources"])
def group_backward_kernel(
    TABLE,
    W,  # [G, d]
    GRAD,  # [T, G, d]
    OUT,  # [T, G, d]
    LSE,  # [T, G]
    DV,  # [num_sources, T, d]
    DW,  # [programs, G, d] float32
    T,
    num_sources,
    eps,
    G: tl.constexpr,
    D: tl.constexpr,
    GP: tl.constexpr,
    BD: tl.constexpr,
    STAGES: tl.constexpr,
    TOKENS: tl.constexpr,
):
    i_p = tl.program_id(0).to(tl.int64)
    o_g = tl.arange(0, GP)
    o_d = tl.arange(0, BD)
    m_g = o_g < G
    m_d = o_d < D
    o = o_g[:, None] * D + o_d[None, :]
    mask = m_g[:, None] & m_d[None, :]
    w = tl.load(W + o, mask=mask, other=0.0).to(tl.float32)
    dw = tl.zeros([GP, BD], tl.float32)
    for k in range(tl.minimum(TOKENS, T - i_p * TOKENS)):
        i_t = i_p * TOKENS + k
        g = tl.load(GRAD + i_t * G * D + o, mask=mask, other=0.0).to(tl.float32)
        out = tl.load(OUT + i_t * G * D + o, mask=mask, other=0.0).to(tl.float32)
        delta = tl.sum(g * out, 1)
        lse = tl.load(LSE + i_t * G + o_g, mask=m_g, other=float("inf"))
        for n in tl.range(0, num_sources, num_stages=STAGES):
            v = tl.load(source_row(TABLE, n, OUT, D) + i_t * D + o_d, mask=m_d, other=0.0).to(tl.float32)
            r = tl.rsqrt(tl.sum(v * v, 0) / D + eps)
            z = tl.sum(w * v[None, :], 1) * r
            a = tl.exp2(z * LOG2E - lse)
            p = a * (tl.sum(g * v[None, :], 1) - delta)
            norm = tl.sum(p * z, 0) * r * r / D
            p = p * r
            dv = tl.sum(g * a[:, None] + w * p[:, None], 0) - v * norm
            tl.store(DV + (n * T + i_t) * D + o_d, dv.to(DV.dtype.element_ty), mask=m_d)
            dw += p[:, None] * v[None, :]
    tl.store(DW + i_p * G * D + o, dw, mask=mask)

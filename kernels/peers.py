"""Other implementations of depth routing, for the benchmark: the definition through torch.compile, and
fla-core's kernel where it is installed.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, import-not-found, untyped-decorator"

import importlib.util
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from headcount.kernels.measurement import EPS, Case, Implementation, Pass


def peers() -> dict[str, Implementation]:
    found = {
        "torch.compile": Implementation.by_site(_read_stacked),
        "torch.compile, buffer": Implementation(_forward_in_buffer, _both_in_buffer),
    }
    if importlib.util.find_spec("fla") is not None:
        found["fla-core, H = 1"] = Implementation.by_site(_fla_read(), heads=1)
    return found


def _mix(values: Tensor, query: Tensor, heads: int) -> Tensor:
    """The read of one site over values [n, T, d]. Sums of products: einsum compiled to slower code."""
    exact = values.float()
    keys = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPS)
    weights = (keys * query).unflatten(-1, (heads, -1)).sum(-1).softmax(0)
    return (weights.unsqueeze(-1) * exact.unflatten(-1, (heads, -1))).sum(0).flatten(-2).to(values.dtype)


def _read(values: Tensor, query: Tensor, heads: int) -> Tensor:
    """One compiled graph for all numbers of sources but 1, which torch.compile would make a special case."""
    if len(values) == 1:
        return values[0] + 0 * query.to(values.dtype)  # the weight is 1 whatever the query
    torch._dynamo.mark_dynamic(values, 0)
    return _compiled_mix()(values, query, heads)


@cache
def _compiled_mix() -> Any:
    return torch.compile(_mix)


def _read_stacked(sources: list[Tensor], query: Tensor, heads: int) -> Tensor:
    """As a model would be written: the sources are a list."""
    return _read(torch.stack(sources), query, heads)


def _forward_in_buffer(case: Case) -> list[Tensor]:
    return [output for output, *_ in _reads_in_buffer(case)]


def _both_in_buffer(case: Case) -> Pass:
    """The fastest form found around torch.compile: sources lie in one buffer, of which a site reads a prefix,
    and its gradients are added to a buffer likewise.
    """
    reads = _reads_in_buffer(case)
    of_sources = torch.zeros_like(reads[-1][1])
    of_queries = torch.empty_like(case.queries)
    for site in reversed(range(len(reads))):
        output, values, query = reads[site]
        of_values, of_queries[site] = torch.autograd.grad(output, (values, query), case.gradients[site])
        of_sources[: len(values)] += of_values
    return [output for output, *_ in reads], [*of_sources.unbind(0), of_queries]


def _reads_in_buffer(case: Case) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Output, sources and query of each site."""
    buffer = torch.stack([source.detach() for source in case.sources])
    reads = []
    for site, n in enumerate(case.shape.reads()):
        values = buffer[:n].requires_grad_()
        query = case.queries[site].detach().requires_grad_()
        reads.append((_read(values, query, case.shape.heads), values, query))
    return reads


def _fla_read() -> Any:
    from fla.ops.attnres import fused, fused_attnres
    from triton.testing import do_bench

    for kernel in (fused.attnres_fwd_kernel, fused.attnres_bwd_kernel_dv, fused.attnres_bwd_kernel_dqdw):
        # its tuning compiles up to 24 candidates for each power of two of sources: a third of them, for 10 ms
        # each, makes minutes of an hour
        kernel.configs = [
            c for c in kernel.configs if c.num_warps <= 8 and c.num_stages != 3
        ] or kernel.configs
        kernel.do_bench = partial(do_bench, warmup=2, rep=10)

    def read(sources: list[Tensor], query: Tensor, heads: int) -> Tensor:
        return fused_attnres(query.bfloat16(), sources, torch.ones_like(sources[0][0]))

    return read

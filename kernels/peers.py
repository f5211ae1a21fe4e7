"""Other implementations of depth routing, for the benchmark: the definition through torch.compile, and
fla-core's kernel where it is installed.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, import-not-found, untyped-decorator"

import importlib.util
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from headcount.kernels.measurement import EPS, Case, Implementation, Pass, Shape


def peers(shape: Shape) -> dict[str, Implementation]:
    found = {
        "torch.compile": Implementation.of(_forward_stacked),
        "torch.compile, buffer": Implementation(_forward_in_buffer, _both_in_buffer),
    }
    if shape.block_size is None and importlib.util.find_spec("fla") is not None:
        found["fla-core, H = 1"] = Implementation.by_site(_fla_read(), heads=1)
    return found


def _mix(values: Tensor, query: Tensor, heads: int) -> Tensor:
    """The read of one site over values [n, T, d]. Sums of products: einsum compiled to slower code."""
    exact = values.float()
    weights = _logits(exact, query, heads).softmax(0)
    return (weights.unsqueeze(-1) * exact.unflatten(-1, (heads, -1))).sum(0).flatten(-2).to(values.dtype)


def _mix_delta(values: Tensor, query: Tensor, heads: int, null: Tensor, gate: Tensor, base: Tensor) -> Tensor:
    """The same of the delta form; the null source [d], the same for all tokens, is not stacked."""
    exact = values.float()
    logits, of_null = _logits(exact, query, heads), _logits(null, query, heads)
    top = torch.maximum(logits.amax(0), of_null).detach()
    weights, null_weight = (logits - top).exp(), (of_null - top).exp()
    mixed = (weights.unsqueeze(-1) * exact.unflatten(-1, (heads, -1))).sum(0)
    mixed = mixed + null_weight.unsqueeze(-1) * null.unflatten(-1, (heads, -1))
    mixed = mixed / (weights.sum(0) + null_weight).unsqueeze(-1)
    return (base.float() + gate * mixed.flatten(-2)).to(base.dtype)


def _logits(exact: Tensor, query: Tensor, heads: int) -> Tensor:
    keys = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPS)
    return (keys * query).unflatten(-1, (heads, -1)).sum(-1)


def _read(values: Tensor, query: Tensor, heads: int, delta: Sequence[Tensor]) -> Tensor:
    """One compiled graph for all numbers of sources but 1, which torch.compile would make a special case."""
    if len(values) > 1:
        torch._dynamo.mark_dynamic(values, 0)
    elif not delta:
        return values[0] + 0 * query.to(values.dtype)  # the weight is 1 whatever the query
    return _compiled(_mix_delta if delta else _mix)(values, query, heads, *delta)


@cache
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(function)


def _forward_stacked(case: Case) -> list[Tensor]:
    """As a model would be written: the sources are a list."""
    return [
        _read(torch.stack(case.sources[:n]), query, case.shape.heads, delta)
        for n, query, delta in case.sites()
    ]


def _forward_in_buffer(case: Case) -> list[Tensor]:
    return [output for output, *_ in _reads_in_buffer(case)]


def _both_in_buffer(case: Case) -> Pass:
    """The fastest form found around torch.compile: sources lie in one buffer, of which a site reads a prefix,
    and its gradients are added to a buffer likewise.
    """
    reads = _reads_in_buffer(case)
    of_sources = torch.zeros_like(reads[-1][1][0])
    of_parameters = [torch.empty_like(tensor) for tensor in case.inputs()[len(case.sources) :]]
    for site in reversed(range(len(reads))):
        output, leaves = reads[site]
        of_values, *others = torch.autograd.grad(output, leaves, case.gradients[site])
        of_sources[: len(of_values)] += of_values
        for total, gradient in zip(of_parameters, others, strict=True):
            total[site] = gradient
    return [output for output, _ in reads], [*of_sources.unbind(0), *of_parameters]


def _reads_in_buffer(case: Case) -> list[tuple[Tensor, list[Tensor]]]:
    """Output of each site, and its leaves: sources, query and, in the delta form, null source and gate."""
    buffer = torch.stack([source.detach() for source in case.sources])
    reads = []
    for n, query, delta in case.sites():
        leaves = [tensor.detach().requires_grad_() for tensor in (buffer[:n], query, *delta[:2])]
        values, query, *learned = leaves
        reads.append((_read(values, query, case.shape.heads, (*learned, *delta[2:])), leaves))
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

"""What the benchmark measures with: random cases, CUDA-graph timing, memory, error and the byte model."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headcount.kernels.definition import route_by_definition
from headcount.kernels.two_phase import partition

EPS = 1e-6


class Shape(NamedTuple):
    """One model's routing: tokens in a micro-batch, width, sites, routing heads, and the most sources a
    site reads.
    """

    tokens: int
    width: int
    sites: int
    heads: int
    blocks: int | None = None  # with block routing: reads grow from 2 sources to this many

    def reads(self) -> list[int]:
        """How many sources each site reads."""
        if self.blocks is None:
            return list(range(1, self.sites + 1))
        return [2 + site * (self.blocks - 1) // self.sites for site in range(self.sites)]


class Case:
    """Random sources, folded queries and site gradients of one shape."""

    def __init__(self, shape: Shape) -> None:
        generator = torch.Generator(device="cuda").manual_seed(0)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, device="cuda", generator=generator)

        self.shape = shape
        num_sources = max(shape.reads())
        scales = [math.exp(0.5 * math.sin(n)) for n in range(num_sources)]
        self.sources = [
            (scale * normal(shape.tokens, shape.width)).bfloat16().requires_grad_() for scale in scales
        ]
        queries = normal(shape.sites, shape.width) / math.sqrt(shape.width / shape.heads)
        self.queries = queries.bfloat16().float().requires_grad_()
        self.gradients = [normal(shape.tokens, shape.width).bfloat16() for _ in range(shape.sites)]

    def inputs(self) -> list[Tensor]:
        return [*self.sources, self.queries]


Read = Callable[[list[Tensor], Tensor, int], Tensor]


def forward_by_site(case: Case, read: Read) -> list[Tensor]:
    """Every site's read, one call each, over a list of sources."""
    queries = case.queries.unbind(0)
    return [read(case.sources[:n], queries[s], case.shape.heads) for s, n in enumerate(case.shape.reads())]


def milliseconds(work: Callable[[], object], replays: int = 9) -> float:
    """Median time of `work` as a CUDA graph."""
    graph = captured(work)
    graph.replay()
    times = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[replays // 2]


def captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def times_of(case: Case, forward: Callable[[], list[Tensor]]) -> tuple[float, float]:
    """Forward and backward: the backward is what a graph of both takes beyond the forward's."""
    forward_ms = milliseconds(forward)
    both = milliseconds(lambda: torch.autograd.grad(forward(), case.inputs(), case.gradients))
    return forward_ms, both - forward_ms


def peak_gib(case: Case, forward: Callable[[], list[Tensor]]) -> float:
    """Peak memory of forward and backward beyond sources, site gradients and the sites' results."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    torch.autograd.grad(forward(), case.inputs(), case.gradients)
    results = case.shape.sites * case.shape.tokens * case.shape.width * 2
    return (torch.cuda.max_memory_allocated() - before - results) / 2**30


def errors(shape: Shape, run: Callable[[Case], list[Tensor]]) -> dict[str, float]:
    """RMS errors over RMS values against float64, on 64 tokens."""
    case = Case(shape._replace(tokens=64))
    outputs = run(case)
    ours = (outputs, torch.autograd.grad(outputs, case.inputs(), case.gradients))
    exact = Case(case.shape)
    exact.sources = [source.detach().double().requires_grad_() for source in case.sources]
    exact.queries = case.queries.detach().double().requires_grad_()
    ones = torch.ones(shape.width, dtype=torch.float64, device="cuda")
    outputs = forward_by_site(
        exact, lambda sources, query, heads: route_by_definition(sources, query, ones, heads)
    )
    expected = (outputs, torch.autograd.grad(outputs, exact.inputs(), [g.double() for g in case.gradients]))

    def error(a: Sequence[Tensor], b: Sequence[Tensor]) -> float:
        difference = sum((x.double() - y).square().sum().item() for x, y in zip(a, b, strict=True))
        return math.sqrt(difference / sum(y.square().sum().item() for y in b))

    return {
        "out": error(ours[0], expected[0]),
        "dv": error(ours[1][:-1], expected[1][:-1]),
        "dq": error(ours[1][-1:], expected[1][-1:]),
    }


def vectors_moved(shape: Shape, implementation: str) -> float:
    """Vectors of width d a token's routing must move through memory, forward and backward."""
    reads = shape.reads()
    if implementation == "fused":
        # backward: read each source, write its gradient, and let autograd add it to the others (two in,
        # one out)
        added = sum(reads) - max(reads)
        return sum(reads) + len(reads) + 2 * sum(reads) + 2 * len(reads) + 3 * added
    total = 0
    for block in partition(shape.sites, 8):
        own = range(block.first_site, block.first_site + block.num_sites)
        later = own.stop < shape.sites
        if block.num_old:
            total += block.num_old + block.num_sites  # partial results
            total += (
                block.num_old * (2 if later else 1) + 2 + 3
            )  # deferred gradients, delta, the first own source
        for site in own[1 if block.num_old else 0 :]:
            total += site + 1 - block.num_old + (1 if block.num_old else 0) + 1  # merge
            total += 1 + later + (own.stop - site) + 1 + 1  # finalise
        total += own.stop + block.num_sites  # deferred: sources and site gradients
    return total


def copy_bandwidth() -> float:
    """TB/s of a large device copy, read and written."""
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    target.copy_(source)
    start.record()
    for _ in range(5):
        target.copy_(source)
    end.record()
    end.synchronize()
    return 5 * 2 * source.numel() / start.elapsed_time(end) / 1e9

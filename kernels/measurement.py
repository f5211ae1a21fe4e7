"""What the benchmark measures with: random cases, CUDA-graph timing, memory and error."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from headcount.kernels.definition import route_by_definition

EPS = 1e-6


class Shape(NamedTuple):
    """One model's routing: tokens in a micro-batch, width, sites and routing heads; with `block_size` in the
    delta form, each source the sum of as many sublayers' outputs.
    """

    tokens: int
    width: int
    sites: int
    heads: int
    block_size: int | None = None

    def reads(self) -> list[int]:
        """How many sources each site reads, beside the null source of the delta form."""
        return [1 + site // (self.block_size or 1) for site in range(self.sites)]


class DeltaInputs(NamedTuple):
    """What the delta form takes beyond sources and queries."""

    nulls: Tensor  # [sites, d] float32, here with bfloat16 values, as the gates
    gates: Tensor  # [sites]
    bases: list[Tensor]  # the running sum [T, d] at each site


@dataclass
class Case:
    """Inputs of one shape's routing."""

    shape: Shape
    sources: list[Tensor]  # of [T, d]
    queries: Tensor  # folded: [sites, d] float32, here with bfloat16 values
    gradients: list[Tensor]  # of each site's read
    delta: DeltaInputs | None = None

    @classmethod
    def random(
        cls, shape: Shape, dtype: torch.dtype = torch.bfloat16, device: torch.device | str = "cuda"
    ) -> "Case":
        generator = torch.Generator(device).manual_seed(0)

        def normal(*size: int) -> Tensor:
            return torch.randn(*size, device=device, generator=generator)

        scales = [math.exp(0.5 * math.sin(n)) for n in range(max(shape.reads()))]
        sources = [(scale * normal(shape.tokens, shape.width)).to(dtype) for scale in scales]
        queries = normal(shape.sites, shape.width) / math.sqrt(shape.width / shape.heads)
        gradients = [normal(shape.tokens, shape.width).to(dtype) for _ in range(shape.sites)]
        delta = None
        if shape.block_size is not None:
            rows, gates = normal(shape.sites, shape.width), normal(shape.sites)
            nulls, gates = (tensor.bfloat16().float().requires_grad_() for tensor in (rows, gates))
            bases = [normal(shape.tokens, shape.width).to(dtype) for _ in range(shape.sites)]
            delta = DeltaInputs(nulls, gates, bases)
        leaves = [source.requires_grad_() for source in sources]
        return cls(shape, leaves, queries.bfloat16().float().requires_grad_(), gradients, delta)

    def first_tokens(self, tokens: int) -> "Case":
        """The first tokens alone, in float64."""
        sources = [source.detach()[:tokens].double().requires_grad_() for source in self.sources]
        gradients = [gradient[:tokens].double() for gradient in self.gradients]
        shape = self.shape._replace(tokens=tokens)
        delta = None
        if self.delta:
            nulls, gates = (tensor.detach().double().requires_grad_() for tensor in self.delta[:2])
            delta = DeltaInputs(nulls, gates, [base[:tokens].double() for base in self.delta.bases])
        return Case(shape, sources, self.queries.detach().double().requires_grad_(), gradients, delta)

    def sites(self) -> Iterator[tuple[int, Tensor, tuple[Tensor, ...]]]:
        """The number of sources of each site, its query and, in the delta form, its null source, gate and
        running sum.
        """
        delta: Iterator[tuple[Tensor, ...]] = repeat(())
        if self.delta:
            delta = zip(self.delta.nulls.unbind(0), self.delta.gates.unbind(0), self.delta.bases, strict=True)
        return zip(self.shape.reads(), self.queries.unbind(0), delta, strict=False)

    def inputs(self) -> list[Tensor]:
        """What gradients are taken of: of the running sum they are those of the reads, unchanged."""
        return [*self.sources, self.queries, *(self.delta[:2] if self.delta else ())]


Read = Callable[[list[Tensor], Tensor, int], Tensor]
Pass = tuple[Sequence[Tensor], Sequence[Tensor]]  # every site's read; gradients of the sources and queries


class Implementation(NamedTuple):
    """Something that routes a whole case."""

    forward: Callable[[Case], Sequence[Tensor]]
    both: Callable[[Case], Pass]
    heads: int | None = None  # where it knows one number of heads only

    @classmethod
    def of(cls, forward: Callable[[Case], list[Tensor]], heads: int | None = None) -> "Implementation":
        """With autograd's backward."""

        def both(case: Case) -> Pass:
            outputs = forward(case)
            return outputs, torch.autograd.grad(outputs, case.inputs(), case.gradients)

        return cls(forward, both, heads)

    @classmethod
    def by_site(cls, read: Read, heads: int | None = None) -> "Implementation":
        """One call of `read` for each site, over a list of sources."""

        def forward(case: Case) -> list[Tensor]:
            outputs = []
            for n, query, delta in case.sites():
                if not delta:
                    outputs.append(read(case.sources[:n], query, case.shape.heads))
                    continue
                null, gate, base = delta
                null = null.to(base.dtype).expand_as(base)
                mixed = read([null, *case.sources[:n]], query, case.shape.heads)
                outputs.append(base + gate.to(mixed.dtype) * mixed)
            return outputs

        return cls.of(forward, heads)


def milliseconds(work: Callable[[], object], replays: int = 9) -> float:
    """Median time of `work` as a CUDA graph."""
    graph = captured(work)
    graph.replay()
    return median(replay_ms(graph) for _ in range(replays))


def replay_ms(graph: torch.cuda.CUDAGraph) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    graph.replay()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def captured(work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """`work` as a CUDA graph, after one run of it.

    Both on one stream: autograd runs a leaf's accumulation on the stream of its first use, and a capture
    that has to leave its own stream fails.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    return graph


def times_of(case: Case, implementation: Implementation) -> tuple[float, float]:
    """Forward and backward: the backward is what a graph of both takes beyond the forward's."""
    forward_ms = milliseconds(lambda: implementation.forward(case))
    torch.cuda.empty_cache()
    both_ms = milliseconds(lambda: implementation.both(case))
    torch.cuda.empty_cache()
    return forward_ms, both_ms - forward_ms


CHECKED = 64  # tokens


def peak_and_errors(case: Case, implementation: Implementation) -> dict[str, float]:
    """Peak memory of forward and backward beyond sources, site gradients and the sites' results, in GiB and
    in all sources' size; and RMS errors over RMS values against float64, on the first CHECKED tokens.

    Tokens do not meet but in the query's gradient, so the other tokens' gradients are zero here.
    """
    for gradient in case.gradients:
        gradient[CHECKED:] = 0
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    outputs, gradients = implementation.both(case)
    n = len(case.sources)
    vectors = case.shape.tokens * case.shape.width * 2
    beyond = torch.cuda.max_memory_allocated() - before - case.shape.sites * vectors
    exact_outputs, exact = by_definition(implementation.heads).both(case.first_tokens(CHECKED))
    found = {
        "peak_gib": beyond / 2**30,
        "peak_ntd": beyond / vectors / n,
        "out": relative_error([output[:CHECKED] for output in outputs], exact_outputs),
        "dv": relative_error([gradient[:CHECKED] for gradient in gradients[:n]], exact[:n]),
        "dq": relative_error(gradients[n : n + 1], exact[n : n + 1]),
    }
    if case.delta:
        found["dnull"] = relative_error(gradients[n + 1 : n + 2], exact[n + 1 : n + 2])
        found["dgate"] = relative_error(gradients[n + 2 :], exact[n + 2 :])
    return found


def by_definition(heads: int | None = None) -> Implementation:
    """What the others approximate."""

    def read(sources: list[Tensor], query: Tensor, usual: int) -> Tensor:
        return route_by_definition(sources, query, torch.ones_like(query), heads or usual)

    return Implementation.by_site(read)


def relative_error(ours: Sequence[Tensor], exact: Sequence[Tensor]) -> float:
    """|ours − exact| / |exact|, all tensors together."""
    difference = sum((a.double() - b).square().sum().item() for a, b in zip(ours, exact, strict=True))
    return math.sqrt(difference / sum(b.square().sum().item() for b in exact))


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

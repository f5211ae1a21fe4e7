"""`python -m headcount.kernels.bench`: all routing reads of one micro-batch, timed on this GPU.

Times are medians of CUDA-graph replays on random data, forward and backward apart. The bytes are those
the algorithm must move (vectors of width d only); TB/s is set against a large copy in the same run.
Sources and gradients of sites are given; two_phase's copies of the sources into its buffer are a column
of their own, as a sublayer has to store its output somewhere in any case.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, import-not-found"

import argparse
import dataclasses
import importlib.util
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
from torch import Tensor

from headcount.kernels.fused import route_fused
from headcount.kernels.launch import Launch, launch_for
from headcount.kernels.measurement import (
    EPS,
    Case,
    Read,
    Shape,
    copy_bandwidth,
    errors,
    forward_by_site,
    milliseconds,
    peak_gib,
    times_of,
    vectors_moved,
)
from headcount.kernels.tiles import Tiles
from headcount.kernels.two_phase import Forward, TwoPhase

SHAPES = {
    "100m": Shape(16384, 512, 25, 4),
    "350m": Shape(4096, 1024, 49, 8),
    "1b": Shape(2048, 1280, 73, 8),
    "8b": Shape(2048, 4096, 73, 32),
    "8b-delta": Shape(4096, 4096, 65, 8, blocks=10),
}


def forward_two_phase(case: Case, launch: Launch | None = None) -> list[Tensor]:
    state = TwoPhase(case.queries, case.sources[0], case.shape.heads, EPS, launch)
    outputs = []
    for source in case.sources:
        state.write(source)
        outputs.append(state.read())
    return outputs


def writes_of_two_phase(case: Case) -> float:
    """What two_phase's copies of the sources take."""

    def write_all() -> None:
        forward = Forward(case.queries.detach(), case.sources[0], case.shape.heads, EPS)
        for source in case.sources:
            forward.store(source.detach())

    return milliseconds(write_all)


def peers(shape: Shape) -> dict[str, Read]:
    """Other implementations: the definition through torch.compile, and fla-core's where it is installed."""
    ones = torch.ones(shape.width, device="cuda", dtype=torch.bfloat16)

    @torch.compile
    def mix(values: Tensor, query: Tensor, heads: int) -> Tensor:
        exact = values.float()
        keys = exact * torch.rsqrt(exact.square().mean(-1, keepdim=True) + EPS)
        weights = (keys * query).unflatten(-1, (heads, -1)).sum(-1).softmax(0)
        return (weights.unsqueeze(-1) * exact.unflatten(-1, (heads, -1))).sum(0).flatten(-2).to(values.dtype)

    def compiled(sources: list[Tensor], query: Tensor, heads: int) -> Tensor:
        values = torch.stack(sources)
        if len(sources) > 1:
            torch._dynamo.mark_dynamic(values, 0)
        return mix(values, query, heads)

    torch._dynamo.reset()
    found: dict[str, Read] = {"torch.compile": compiled}
    if importlib.util.find_spec("fla") is not None:
        from fla.ops.attnres import fused_attnres

        def fla(sources: list[Tensor], query: Tensor, heads: int) -> Tensor:
            return fused_attnres(query.bfloat16(), sources, ones)

        found["fla-core, H = 1"] = fla
    return found


def measure(name: str, shape: Shape, with_peers: bool, bandwidth: float) -> Iterator[dict[str, object]]:
    """One row for each implementation, ours first."""
    case = Case(shape)
    runs: dict[str, Callable[[Case], list[Tensor]]] = {
        "fused": partial(forward_by_site, read=partial(route_fused, eps=EPS))
    }
    if shape.blocks is None:
        runs["two_phase"] = forward_two_phase
    if with_peers:
        runs |= {peer: partial(forward_by_site, read=read) for peer, read in peers(shape).items()}
    for implementation, run in runs.items():
        forward, backward = times_of(case, partial(run, case))
        row: dict[str, object] = {"shape": name, "implementation": implementation}
        if implementation == "two_phase":
            writes = writes_of_two_phase(case)
            row["writes_ms"] = writes
            forward -= writes
        row |= {"forward_ms": forward, "backward_ms": backward, "total_ms": forward + backward}
        row["peak_gib"] = peak_gib(case, partial(run, case))
        if implementation in ("fused", "two_phase"):
            gigabytes = vectors_moved(shape, implementation) * shape.tokens * shape.width * 2 / 1e9
            row |= {
                "floor_ms": gigabytes / bandwidth,
                "gb": gigabytes,
                "tb_s": gigabytes / (forward + backward),
            }
            row |= errors(shape, run)
        yield row


def tune(shape: Shape) -> list[str]:
    """Rows of the launch table that would be faster here, each with one parameter changed."""
    case = Case(shape)
    table = launch_for(Tiles.of(shape.width, shape.heads), torch.stack(case.sources).detach())

    def total(launch: Launch) -> float:
        return sum(times_of(case, lambda: forward_two_phase(case, launch)))

    candidates = {
        "block_sites": (6, 7, 8),
        "partial_tokens": (4, 8, 16),
        "partial_stages": (2, 3, 4),
        "deferred_tokens": (8, 16, 32),
        "deferred_stages": (2, 3),
        "block_warps": (1, 2, 4),
        "merge_warps": (1, 2, 4, 8),
        "merge_stages": (2, 3, 4),
        "finalise_warps": (1, 2, 4, 8),
    }
    usual = total(table)
    lines = [f"table: {usual:.3f} ms with {table}"]
    for field, values in candidates.items():
        for value in values:
            if value != getattr(table, field):
                measured = total(dataclasses.replace(table, **{field: value}))  # type: ignore[arg-type]
                lines.append(f"{field}={value}: {measured:.3f} ms ({100 * (measured / usual - 1):+.1f} %)")
    return lines


COLUMNS = ("writes_ms", "forward_ms", "backward_ms", "total_ms", "floor_ms", "gb", "tb_s", "peak_gib")
ERRORS = ("out", "dv", "dq")


def line(row: dict[str, object]) -> str:
    """A row of the printed table."""
    cells = [row.get(column) for column in COLUMNS + ERRORS]
    values = "".join(f"{value:12.3g}" if value is not None else f"{'–':>12}" for value in cells)
    return f"{row['shape']:9}{row['implementation']:18}{values}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m headcount.kernels.bench", description="Time depth routing."
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="default: all")
    parser.add_argument(
        "--peers", action="store_true", help="also torch.compile and, where installed, fla-core"
    )
    parser.add_argument("--tune", action="store_true", help="propose launch parameters instead")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("the benchmark needs a CUDA device and found none")
    # captures use a stream of their own
    warnings.filterwarnings("ignore", message="The AccumulateGrad node's stream")
    if options.tune:
        for name in options.shapes:
            print(f"{name}:", *tune(SHAPES[name]), sep="\n  ")
        return
    bandwidth = copy_bandwidth()
    card, rows = torch.cuda.get_device_name(), []
    if not options.json:
        print(f"{card}, torch {torch.__version__}, copy {bandwidth:.2f} TB/s; errors are RMS against float64")
        print(f"{'shape':9}{'implementation':18}" + "".join(f"{column:>12}" for column in COLUMNS + ERRORS))
    for name in options.shapes:
        for row in measure(name, SHAPES[name], options.peers, bandwidth):
            rows.append(row)
            if not options.json:
                print(line(row), flush=True)
    if options.json:
        print(json.dumps({"card": card, "torch": torch.__version__, "copy_tb_s": bandwidth, "rows": rows}))


if __name__ == "__main__":
    main()

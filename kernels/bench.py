"""`headcount bench routing`, or `python -m headcount.kernels.bench` on a box with only torch and triton: all
routing reads of one micro-batch, timed on this GPU.

Times are medians of CUDA-graph replays on random data, forward and backward apart. The bytes are those
the algorithm must move (vectors of width d only); TB/s is set against a large copy in the same run.
Sources and gradients of sites are given; two_phase's copies of the sources into its buffer are a column
of their own, as a sublayer has to store its output somewhere in any case (`DepthHistory.write_product`
stores it there at once).
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, import-not-found"

import argparse
import dataclasses
import json
import warnings
from collections.abc import Iterator, Sequence
from functools import partial

import torch
from torch import Tensor
from triton.runtime.errors import OutOfResources

from headcount.kernels.byte_model import vectors_moved
from headcount.kernels.forward import Forward
from headcount.kernels.fused import route_fused
from headcount.kernels.gating import DeltaForm
from headcount.kernels.launch import Launch, launch_for
from headcount.kernels.measurement import (
    EPS,
    Case,
    Implementation,
    Shape,
    copy_bandwidth,
    milliseconds,
    peak_and_errors,
    times_of,
)
from headcount.kernels.peers import peers
from headcount.kernels.tiles import Tiles
from headcount.kernels.two_phase import TwoPhase

SHAPES = {
    "100m": Shape(16384, 512, 25, 4),
    "350m": Shape(4096, 1024, 49, 8),
    "1b": Shape(2048, 1280, 73, 8),
    "8b": Shape(2048, 4096, 73, 32),
    "8b-delta": Shape(4096, 4096, 65, 8, block_size=8),
}


def forward_two_phase(case: Case, launch: Launch | None = None) -> list[Tensor]:
    size, delta = case.shape.block_size or 1, case.delta
    form = DeltaForm(delta.nulls, delta.gates, size) if delta else None
    state = TwoPhase(case.queries, case.sources[0], case.shape.heads, EPS, launch, form)
    outputs = []
    for site in range(case.shape.sites):
        if site % size == 0:
            state.write(case.sources[site // size])
        outputs.append(state.read_gated(delta.bases[site]) if delta else state.read())
    return outputs


def writes_of_two_phase(case: Case) -> float:
    """What two_phase's copies of the sources take."""

    def write_all() -> None:
        forward = Forward(case.queries.detach(), case.sources[0], case.shape.heads, EPS)
        for source in case.sources:
            forward.store(source.detach())

    return milliseconds(write_all)


def implementations(shape: Shape, with_peers: bool) -> dict[str, Implementation]:
    """Ours last."""
    found = peers(shape) if with_peers else {}
    found["fused"] = Implementation.by_site(partial(route_fused, eps=EPS))
    found["two_phase"] = Implementation.of(forward_two_phase)
    return found


def measure(name: str, shape: Shape, with_peers: bool, bandwidth: float) -> Iterator[dict[str, object]]:
    """One row for each implementation."""
    torch._dynamo.reset()
    for label, implementation in implementations(shape, with_peers).items():
        case = Case.random(shape)
        row: dict[str, object] = {"shape": name, "implementation": label}
        try:
            forward, backward = times_of(case, implementation)
        except torch.OutOfMemoryError:
            yield row | {"failed": "needs more memory than this GPU has"}
            continue
        if label == "two_phase":
            writes = writes_of_two_phase(case)
            row["writes_ms"] = writes
            forward -= writes
        row |= {"forward_ms": forward, "backward_ms": backward, "total_ms": forward + backward}
        if label == "two_phase" or (label == "fused" and shape.block_size is None):
            gigabytes = vectors_moved(shape, label) * shape.tokens * shape.width * 2 / 1e9
            row |= {
                "floor_ms": gigabytes / bandwidth,
                "gb": gigabytes,
                "tb_s": gigabytes / (forward + backward),
            }
        yield row | peak_and_errors(case, implementation)


def tune(shape: Shape) -> Iterator[str]:
    """Rows of the launch table that would be faster here, each with one parameter changed."""
    case = Case.random(shape)
    table = launch_for(Tiles.of(shape.width, shape.heads), case.sources[0].detach())

    def total(launch: Launch) -> float:
        return sum(times_of(case, Implementation.of(partial(forward_two_phase, launch=launch))))

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
        "norm_warps": (1, 2, 4, 8),
        "norm_tokens": (2, 4, 8),
    }
    usual = total(table)
    yield f"table: {usual:.3f} ms with {table}"
    for field, values in candidates.items():
        for value in values:
            if value == getattr(table, field):
                continue
            try:
                measured = total(dataclasses.replace(table, **{field: value}))  # type: ignore[arg-type]
            except OutOfResources as error:
                yield f"{field}={value}: {error}"
                continue
            yield f"{field}={value}: {measured:.3f} ms ({100 * (measured / usual - 1):+.1f} %)"


COLUMNS = (
    "writes_ms",
    "forward_ms",
    "backward_ms",
    "total_ms",
    "floor_ms",
    "gb",
    "tb_s",
    "peak_gib",
    "peak_ntd",
)
ERRORS = ("out", "dv", "dq")


def line(row: dict[str, object]) -> str:
    """A row of the printed table."""
    cells = [row.get(column) for column in COLUMNS + ERRORS]
    values = "".join(f"{value:11.3g}" if value is not None else f"{'–':>11}" for value in cells)
    return f"{row['shape']:9}{row['implementation']:23}{row.get('failed', values)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m headcount.kernels.bench", description="Time depth routing."
    )
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES), help="default: all")
    parser.add_argument(
        "--peers",
        action="store_true",
        help="also torch.compile and, where installed, fla-core (the first run compiles for minutes)",
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
            for proposal in tune(SHAPES[name]):
                print(f"{name}: {proposal}", flush=True)
        return
    bandwidth = copy_bandwidth()
    card, rows = torch.cuda.get_device_name(), []
    if not options.json:
        print(f"{card}, torch {torch.__version__}, copy {bandwidth:.2f} TB/s; errors are RMS against float64")
        print(f"{'shape':9}{'implementation':23}" + "".join(f"{column:>11}" for column in COLUMNS + ERRORS))
    for name in options.shapes:
        for row in measure(name, SHAPES[name], options.peers, bandwidth):
            rows.append(row)
            if not options.json:
                print(line(row), flush=True)
    if options.json:
        print(json.dumps({"card": card, "torch": torch.__version__, "copy_tb_s": bandwidth, "rows": rows}))


if __name__ == "__main__":
    main()

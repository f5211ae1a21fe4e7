"""`headcount bench step`, or `python -m headcount.kernels.step_bench`: what depth routing adds to a training
step of one micro-batch (forward, backward, AdamW) of a plain bf16 transformer with compiled sublayers.

CUDA graphs of both residual streams, from the same weights, replayed in turn, so that the card's clock is
the same for both; the difference is the median of the pairs'.
"""

# mypy: disable-error-code="no-untyped-call"

import argparse
import json
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import torch

from headcount.kernels.measurement import captured, replay_ms
from headcount.kernels.step_model import Model, Transformer

MODELS = {
    "100m": Model(8, 2048, 512, 12, 1536, routing_heads=4),
    "350m": Model(4, 1024, 1024, 24, 4096, routing_heads=8),
    "1b": Model(2, 1024, 1280, 36, 5120, routing_heads=8),
}
PEAK = 989e12  # dense bf16 of H100 and H200 SXM, by their datasheets
COLUMNS = ("additive_ms", "routed_ms", "difference_ms", "speed_ratio", "additive_mfu", "routed_mfu")
PAIRS = 25


class Step(NamedTuple):
    graph: torch.cuda.CUDAGraph
    work: Callable[[], None]  # holds what the graph reads and writes
    peak_gib: float


def captured_step(model: Model, residual: str) -> Step:
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    transformer = Transformer(model)
    # the additive stream has no queries, and parameters without gradients take no part in the update
    rate = torch.tensor(1e-4, device="cuda")
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=rate, fused=True, capturable=True)
    tokens = torch.randint(model.vocabulary, (2, model.tokens), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        transformer(tokens[0], tokens[1], residual).backward()
        optimizer.step()

    graph = captured(step)
    return Step(graph, step, (torch.cuda.max_memory_allocated() - before) / 2**30)


def measure(name: str, model: Model) -> dict[str, object]:
    steps = captured_step(model, "additive"), captured_step(model, "auto")
    pairs = [tuple(replay_ms(step.graph) for step in steps) for _ in range(PAIRS)]
    additive, routed = (median(times) for times in zip(*pairs, strict=True))
    mfu = model.flops() / PEAK * 1e3
    return {
        "model": name,
        "additive_ms": additive,
        "routed_ms": routed,
        "difference_ms": median(b - a for a, b in pairs),
        "speed_ratio": additive / routed,
        "additive_mfu": mfu / additive,
        "routed_mfu": mfu / routed,
        "additive_gib": steps[0].peak_gib,
        "routed_gib": steps[1].peak_gib,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m headcount.kernels.step_bench", description="Time a training step with depth routing."
    )
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS), help="default: all")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        parser.error("the benchmark needs a CUDA device and found none")
    card, rows = torch.cuda.get_device_name(), []
    if not options.json:
        print(f"{card}, torch {torch.__version__}; MFU of {PEAK / 1e12:.0f} TFLOP/s")
        print(f"{'model':9}" + "".join(f"{column:>15}" for column in COLUMNS))
    for name in options.models:
        row = measure(name, MODELS[name])
        rows.append(row)
        if not options.json:
            print(f"{name:9}" + "".join(f"{row[column]:15.3f}" for column in COLUMNS), flush=True)
    if options.json:
        print(json.dumps({"card": card, "torch": torch.__version__, "rows": rows}))


if __name__ == "__main__":
    main()

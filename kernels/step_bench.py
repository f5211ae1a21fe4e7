"""`headcount bench step`, or `python -m headcount.kernels.step_bench`: what depth routing adds to a training
step of one micro-batch (forward, backward, AdamW) of a plain bf16 transformer with compiled sublayers.

Medians of CUDA-graph replays; both residual streams in one process, from the same weights.
"""

# mypy: disable-error-code="no-untyped-call"

import argparse
import json
from collections.abc import Sequence

import torch

from headcount.kernels.measurement import milliseconds
from headcount.kernels.step_model import Model, Transformer

MODELS = {
    "100m": Model(8, 2048, 512, 12, 1536, routing_heads=4),
    "350m": Model(4, 1024, 1024, 24, 4096, routing_heads=8),
    "1b": Model(2, 1024, 1280, 36, 5120, routing_heads=8),
}
PEAK = 989e12  # dense bf16 of H100 and H200 SXM, by their datasheets
COLUMNS = ("additive_ms", "routed_ms", "difference_ms", "speed_ratio", "additive_mfu", "routed_mfu")


def step_ms(model: Model, residual: str) -> tuple[float, float]:
    """Time of a step in ms, and its peak memory in GiB."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    transformer = Transformer(model)
    # the additive stream has no queries, and parameters without gradients take no part in the update
    rate = torch.tensor(1e-4, device="cuda")
    optimizer = torch.optim.AdamW(transformer.parameters(), lr=rate, fused=True, capturable=True)
    tokens = torch.randint(model.vocabulary, (2, model.tokens), device="cuda")

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        transformer(tokens[0], tokens[1], residual).backward()
        optimizer.step()

    time = milliseconds(step)
    return time, torch.cuda.max_memory_allocated() / 2**30


def measure(name: str, model: Model) -> dict[str, object]:
    additive, additive_gib = step_ms(model, "additive")
    routed, routed_gib = step_ms(model, "auto")
    mfu = model.flops() / PEAK * 1e3
    return {
        "model": name,
        "additive_ms": additive,
        "routed_ms": routed,
        "difference_ms": routed - additive,
        "speed_ratio": additive / routed,
        "additive_mfu": mfu / additive,
        "routed_mfu": mfu / routed,
        "additive_gib": additive_gib,
        "routed_gib": routed_gib,
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

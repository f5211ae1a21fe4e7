"""What is weak about a plan: what its table will not be able to say, told before anything is trained."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from headcount.sweeps.planning.plan import Plan
from headcount.trainer.config import DataConfig, JobConfig
from headcount.trainer.residuals.registry import stream_fields, stream_reads

RATE = "train.peak_lr"


def plan_warnings(plan: Plan, configs: list[JobConfig], results: Mapping[str, float | None]) -> Iterator[str]:
    """In the order of their weight. `configs` of all cells, and those to come; `results` as in `History`."""
    spec = plan.spec
    if spec.control is None:
        yield "no controls: the table will have losses and no deltas"
    elif plan.cells and all(cell.control is None for cell in plan.cells):
        yield "every cell is its own control: the table will have losses and no deltas"
    if len(spec.seeds) == 1:
        yield "one seed: a delta has no interval and no p-value; two or more seeds give them"
    yield from _rates(plan, results)
    several_heads = len(spec.axes.get("model.routing_heads", ())) > 2
    if several_heads and spec.analysis is None and spec.search is None:
        yield (
            "no analysis: ends and middle of model.routing_heads are not fixed beforehand, so this sweep's "
            "own seeds cannot support a U"
        )
    yield from _unread(plan, configs)
    yield from _repeated_text(plan, configs)


def _rates(plan: Plan, results: Mapping[str, float | None]) -> Iterator[str]:
    """Whether every method has the same learning rates, with the best ones inside."""
    axis = plan.spec.axes.get(RATE, ())
    if len(axis) < 2 or plan.spec.search is not None:  # a search weighs rates by what it saw
        return
    by_method: dict[tuple[object, ...], list[tuple[float, int]]] = defaultdict(list)
    for cell in plan.cells:
        method = tuple((name, value) for name, value in cell.settings.items() if name != RATE)
        by_method[cell.is_control, *method].append((cell.settings[RATE], cell.position))
    counts = sorted({len(rates) for rates in by_method.values()})
    if len({tuple(sorted(rate for rate, _ in rates)) for rates in by_method.values()}) > 1:
        yield (
            f"unequal grids of {RATE}: from {counts[0]} to {counts[-1]} values a method, so that a method "
            "with more of them has more chances; skip none, or the same for all"
        )
    if len(axis) == 2:
        yield (
            f"{RATE} has two values: the better one lies at an edge of the grid, and a still better one may "
            "lie beyond"
        )
        return
    means = _cell_means(plan, results)
    best = [
        min((means[cell], rate) for rate, cell in rates)[1]
        for rates in by_method.values()
        if all(cell in means for _, cell in rates)
    ]
    for edge, side in ((min(axis), "lower"), (max(axis), "higher")):
        if at := best.count(edge):
            yield (
                f"{RATE} {edge:g} is the best for {at} of {len(best)} methods so far, and lies at the grid's "
                f"edge: a {side} one may be better still"
            )


def _cell_means(plan: Plan, results: Mapping[str, float | None]) -> dict[int, float]:
    """Mean loss of each cell that is done, by position; a diverged job makes it infinite."""
    losses: dict[int, list[float]] = defaultdict(list)
    for job in plan.jobs:
        if job.id in results and job.config.seed in plan.spec.seeds:
            loss: Any = results[job.id]
            losses[job.cell].append(math.inf if loss is None else loss)
    seeds = len(plan.spec.seeds)
    return {cell: math.fsum(found) / seeds for cell, found in losses.items() if len(found) == seeds}


def _unread(plan: Plan, configs: list[JobConfig]) -> Iterator[str]:
    """Fields of the job that only other residual streams read."""
    streams = {config.model.residual for config in configs}
    read = frozenset().union(*(stream_reads(stream) for stream in streams))
    for name in plan.spec.job:
        if name.startswith("model.") and name.partition(".")[2] in stream_fields() - read:
            yield f"{name} has no effect: the residual stream {', '.join(sorted(streams))} does not read it"


def _repeated_text(plan: Plan, configs: list[JobConfig]) -> Iterator[str]:
    longest: dict[DataConfig, int] = defaultdict(int)
    for config in configs:
        longest[config.data] = max(longest[config.data], config.train.steps * config.train.batch_tokens)
    for data, manifest in plan.texts.items():
        tokens = longest[data]
        if tokens > manifest.train_tokens:
            yield (
                f"a job reads the text {manifest.name} {tokens / manifest.train_tokens:.1f} times over: "
                f"it has {manifest.train_tokens:,} training tokens"
            )

"""What a plan would cost, and what is weak about it, before anything is trained. No measured history yet."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headcount.sweeps.plan import Plan
from headcount.sweeps.statistics.student import t_critical
from headcount.trainer.config import JobConfig
from headcount.trainer.flops import job_flops, parameter_count
from headcount.trainer.residuals.registry import stream_fields, stream_reads


@dataclass(frozen=True)
class JobCost:
    """Of one job of a cell, whatever its seed."""

    parameters: int
    tokens: int
    """Trained on, each pass over the text counted."""
    flops: float
    """Forward and backward, evaluations included, by the formula of `trainer.flops`."""


@dataclass(frozen=True)
class Forecast:
    """The cost of a plan's cells and of all its jobs, and warnings in the order of their weight."""

    cells: tuple[JobCost, ...]
    """By the cell's position."""
    tokens: int
    flops: float
    half_width: float | None
    """Of a delta's 95 % interval, in standard deviations of its paired differences; none at one seed."""
    warnings: tuple[str, ...]


def forecast(plan: Plan) -> Forecast:
    """The cost of every job of `plan`, known or new, and what its table will not be able to say."""
    configs = _configs(plan)
    costs = tuple(
        JobCost(parameter_count(c), c.train.steps * c.train.batch_tokens, job_flops(c)) for c in configs
    )
    seeds = len(plan.spec.seeds)
    return Forecast(
        cells=costs,
        tokens=sum(cost.tokens for cost in costs) * seeds,
        flops=math.fsum(cost.flops for cost in costs) * seeds,
        half_width=t_critical(0.05, seeds - 1) / math.sqrt(seeds) if seeds > 1 else None,
        warnings=tuple(_warnings(plan, configs)),
    )


def _configs(plan: Plan) -> list[JobConfig]:
    """One configuration a cell, by the cell's position."""
    by_cell = {job.cell: job.config for job in plan.jobs}
    return [by_cell[cell.position] for cell in plan.cells]


def _warnings(plan: Plan, configs: list[JobConfig]) -> Iterator[str]:
    spec = plan.spec
    if spec.control is None:
        yield "no controls: the table will have losses and no deltas"
    elif all(cell.control is None for cell in plan.cells):
        yield "every cell is its own control: the table will have losses and no deltas"
    if len(spec.seeds) == 1:
        yield "one seed: a delta has no interval and no p-value; two or more seeds give them"
    if len(spec.axes.get("train.peak_lr", ())) == 2:
        yield (
            "train.peak_lr has two values: the better one lies at an edge of the grid, and a still better "
            "one may lie beyond"
        )
    if len(spec.axes.get("model.routing_heads", ())) > 2 and spec.analysis is None:
        yield (
            "no analysis: ends and middle of model.routing_heads are not fixed beforehand, so this sweep's "
            "own seeds cannot support a U"
        )
    yield from _unread(plan, configs)
    yield from _repeated_text(plan, configs)


def _unread(plan: Plan, configs: list[JobConfig]) -> Iterator[str]:
    """Fields of the job that only other residual streams read."""
    streams = {config.model.residual for config in configs}
    read = frozenset().union(*(stream_reads(stream) for stream in streams))
    for name in plan.spec.job:
        if name.startswith("model.") and name.partition(".")[2] in stream_fields() - read:
            yield f"{name} has no effect: the residual stream {', '.join(sorted(streams))} does not read it"


def _repeated_text(plan: Plan, configs: list[JobConfig]) -> Iterator[str]:
    fingerprints = {job.cell: job.fingerprint for job in plan.jobs}
    for manifest in plan.datasets:
        tokens = max(
            config.train.steps * config.train.batch_tokens
            for position, config in enumerate(configs)
            if fingerprints[position] == manifest.fingerprint
        )
        if tokens > manifest.train_tokens:
            yield (
                f"a job reads the text {manifest.name} {tokens / manifest.train_tokens:.1f} times over: "
                f"it has {manifest.train_tokens:,} training tokens"
            )

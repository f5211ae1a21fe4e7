"""What a plan costs, what its seeds can resolve, and what is weak about it, before anything is trained."""

import math
from dataclasses import dataclass

from headcount.sweeps.forecasting.makespan import makespan
from headcount.sweeps.forecasting.memory import peak_memory
from headcount.sweeps.forecasting.speed import History, measured_memory, rate_of, shape_of
from headcount.sweeps.planning.plan import Plan
from headcount.sweeps.planning.warnings import plan_warnings
from headcount.sweeps.statistics.power import smallest_difference
from headcount.sweeps.statistics.student import t_critical
from headcount.trainer.config import JobConfig
from headcount.trainer.flops import job_flops, parameter_count

ASSUMED_SD = 0.005
"""Nats: of paired differences, where none was measured."""

POWER = 0.8

HOPELESS = 10_000.0
"""Standard errors: with so few seeds and so many comparisons no test says anything."""


@dataclass(frozen=True)
class JobCost:
    """Of one job of a cell, whatever its seed."""

    parameters: int
    tokens: int
    """Trained on, each pass over the text counted."""
    flops: float
    """Forward and backward, evaluations included, by the formula of `trainer.flops`."""


@dataclass(frozen=True)
class Interval:
    """Three guesses of one number."""

    low: float
    typical: float
    high: float


@dataclass(frozen=True)
class TimeForecast:
    """How long the jobs take that have no result yet, all those that may come among them."""

    jobs: int
    slot_hours: Interval
    """Of all slots together: GPU-hours, where slots are GPUs."""
    seconds: Interval
    """Until the last one ends, on `slots` at a time."""
    slots: int
    device: str
    basis: str
    """What the guess rests on."""
    memory: float | None
    """Bytes that the greediest job takes at its peak; none where that is not known."""
    memory_is_measured: bool


@dataclass(frozen=True)
class Resolution:
    """What the seeds can tell apart with 80 % probability."""

    sd: float
    """Of paired differences, in nats."""
    cells: int
    """That `sd` was measured on; 0 where it is assumed."""
    one: float
    """The smallest true difference that is found of one comparison, in nats."""
    family: float | None
    """Of any of `comparisons`, with Bonferroni's correction; none where these seeds cannot tell it."""
    comparisons: int


@dataclass(frozen=True)
class ToComeCost:
    """Of the jobs that a search, refined values or seeds by a rule may add: each number at most."""

    jobs: int
    tokens: int
    flops: float


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
    time: TimeForecast | None
    """None where no history was given, and where there is no job."""
    resolution: Resolution | None
    """None at one seed, and without controls."""
    to_come: ToComeCost | None
    """What the sweep may add to itself, not among `tokens` and `flops`; none where that is nothing."""


def forecast(plan: Plan, history: History | None = None) -> Forecast:
    """The cost of every job of `plan`, known or new; by `history`, how long those take that lack a result."""
    configs = _configs(plan)
    costs = tuple(_cost(config) for config in configs)
    seeds = len(plan.spec.seeds)
    of_all = [*configs, plan.to_come.config] if plan.to_come else configs
    time = _time(plan, configs, costs, history) if history and of_all else None
    warnings = [*plan_warnings(plan, of_all, history.results if history else {})]
    if time is not None and plan.spec.gpu_hours is not None and time.slot_hours.high > plan.spec.gpu_hours:
        warnings.append(
            f"the budget of {plan.spec.gpu_hours:g} GPU-hours may not hold all jobs, which take "
            f"{time.slot_hours.low:.3g} to {time.slot_hours.high:.3g}"
        )
    return Forecast(
        cells=costs,
        tokens=sum(costs[job.cell].tokens for job in plan.jobs),
        flops=math.fsum(costs[job.cell].flops for job in plan.jobs),
        half_width=t_critical(0.05, seeds - 1) / math.sqrt(seeds) if seeds > 1 else None,
        warnings=tuple(warnings),
        time=time,
        resolution=_resolution(plan, history),
        to_come=_to_come(plan),
    )


def _cost(config: JobConfig) -> JobCost:
    tokens = config.train.steps * config.train.batch_tokens
    return JobCost(parameter_count(config), tokens, job_flops(config))


def _to_come(plan: Plan) -> ToComeCost | None:
    if plan.to_come is None:
        return None
    cost = _cost(plan.to_come.config)
    return ToComeCost(plan.to_come.jobs, plan.to_come.jobs * cost.tokens, plan.to_come.jobs * cost.flops)


def _configs(plan: Plan) -> list[JobConfig]:
    """One configuration a cell, by the cell's position."""
    by_cell = {job.cell: job.config for job in plan.jobs}
    return [by_cell[cell.position] for cell in plan.cells]


def _time(plan: Plan, configs: list[JobConfig], costs: tuple[JobCost, ...], history: History) -> TimeForecast:
    left = [job.cell for job in plan.jobs if job.is_wanted and job.id not in history.results]
    if plan.to_come is not None:  # as a cell of its own
        left += [len(configs)] * plan.to_come.jobs
        configs, costs = [*configs, plan.to_come.config], (*costs, _cost(plan.to_come.config))
    shapes = [shape_of(config) for config in configs]
    examples = dict(zip(shapes, configs, strict=True))  # cells differ in far more than their shapes
    rate_by_shape = {shape: rate_of(config, history) for shape, config in examples.items()}
    rates = [rate_by_shape[shape] for shape in shapes]
    resources = plan.spec.resources
    slots = max(1, history.slots // resources.gpus_per_job)
    if resources.max_parallel is not None:
        slots = min(slots, resources.max_parallel)
    guesses = []
    for speed in ("high", "typical", "low"):
        seconds = [costs[cell].flops / getattr(rates[cell], speed) for cell in left]
        guesses.append((math.fsum(seconds) * resources.gpus_per_job / 3600, makespan(seconds, [0.0] * slots)))
    used = sorted(set(left)) or range(len(configs))
    shapes_left = {shapes[cell] for cell in used}
    measured = [measured_memory(examples[shape], history) for shape in shapes_left]
    modelled = [peak_memory(examples[shape]) for shape in shapes_left] if history.device == "cuda" else []
    known = [peak for peak in measured if peak is not None]
    is_measured = len(known) == len(measured)
    peaks = known if is_measured else [*known, *modelled]
    return TimeForecast(
        jobs=len(left),
        slot_hours=Interval(*(hours for hours, _ in guesses)),
        seconds=Interval(*(seconds for _, seconds in guesses)),
        slots=slots,
        device=history.device,
        basis=max((rates[cell] for cell in used), key=lambda rate: rate.high / rate.low).basis,
        memory=max(peaks) if is_measured or modelled else None,
        memory_is_measured=is_measured,
    )


def _resolution(plan: Plan, history: History | None) -> Resolution | None:
    seeds = len(plan.spec.seeds)
    comparisons = sum(cell.control is not None for cell in plan.cells)
    if seeds < 2 or not comparisons:
        return None
    sd = history.delta_sd if history else None
    cells = history.delta_cells if history and sd else 0
    error = (sd or ASSUMED_SD) / math.sqrt(seeds)
    alpha = plan.spec.analysis.alpha if plan.spec.analysis else 0.05
    one, family = (
        smallest_difference(error, seeds - 1, comparisons=count, alpha=alpha, target=POWER)
        if t_critical(alpha / count, seeds - 1) < HOPELESS
        else None
        for count in (1, comparisons)
    )
    assert one is not None
    return Resolution(sd or ASSUMED_SD, cells, one, family, comparisons)

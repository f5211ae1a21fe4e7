"""A plan for people, as a table in the terminal, and for scripts, as plain data."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headcount.sweeps.forecasting.forecast import Forecast, forecast
from headcount.sweeps.forecasting.speed import GPU_MODEL, History
from headcount.sweeps.planning.plan import Plan
from headcount.sweeps.studies import Cost, Study

MOST_ROWS = 40
"""Of the table in the terminal; the plain data have every cell."""


def plan_as_dict(plan: Plan, history: History | None = None) -> dict[str, Any]:
    """The plan and its forecast as plain data, ready for JSON."""
    cost = forecast(plan, history)
    return {
        "name": plan.spec.name,
        "description": plan.spec.description,
        "datasets": [asdict(manifest) for manifest in plan.datasets],
        "cells": [
            {
                "position": cell.position,
                "settings": dict(cell.settings),
                "is_control": cell.is_control,
                "control": cell.control,
                **asdict(cost.cells[cell.position]),
            }
            for cell in plan.cells
        ],
        "jobs": [
            {
                "position": job.position,
                "id": job.id,
                "cell": job.cell,
                "seed": job.config.seed,
                "control_id": job.control_id,
            }
            for job in plan.jobs
        ],
        "instruments": [
            {"id": i.id, "kind": i.kind, "parent_id": i.parent_id, "settings": dict(i.settings)}
            for i in plan.instruments
        ],
        "totals": {
            "cells": len(plan.cells),
            "controls": sum(cell.is_control for cell in plan.cells),
            "jobs": len(plan.jobs),
            "tokens": cost.tokens,
            "flops": cost.flops,
        },
        "to_come": asdict(cost.to_come) if cost.to_come else None,
        "half_width": cost.half_width,
        "time": asdict(cost.time) if cost.time else None,
        "resolution": asdict(cost.resolution) if cost.resolution else None,
        "warnings": list(cost.warnings),
    }


def render_plan(plan: Plan, console: Console, history: History | None = None) -> None:
    """Print the cells with their cost a job, the texts, the totals, the time, and the warnings."""
    cost = forecast(plan, history)
    if plan.cells:
        console.print(_cells(plan, cost))
    if len(plan.cells) > MOST_ROWS:
        console.print(f"… and {len(plan.cells) - MOST_ROWS} more cells")
    for text in plan.datasets:
        name, tokens = escape(text.name), amount(text.train_tokens)
        console.print(f"Text {name}: {tokens} training tokens, fingerprint {text.fingerprint[:12]}")
    controls = sum(cell.is_control for cell in plan.cells)
    seeds = len(plan.spec.seeds)
    if plan.cells:
        console.print(
            f"{counted(len(plan.cells) - controls, 'treatment')} and {counted(controls, 'control')} "
            f"at {counted(seeds, 'seed')}: [bold]{counted(len(plan.jobs), 'job')}[/], "
            f"{amount(cost.tokens)} tokens, {amount(cost.flops, 'G')} FLOP in all"
        )
    for line in (*_instruments(plan), *_to_come(plan, cost)):
        console.print(line, highlight=False, markup=False)
    if cost.half_width is not None and controls and controls < len(plan.cells):
        console.print(
            f"With {seeds} seeds, a delta's 95 % interval is ± {cost.half_width:.2g} times the standard "
            "deviation of its paired differences."
        )
    for line in (*_resolution(cost), *_time(cost)):
        console.print(line, highlight=False, markup=False)
    for warning in cost.warnings:
        console.print(f"[yellow]Warning:[/] {escape(warning)}")


def _instruments(plan: Plan) -> Iterator[str]:
    """What is measured of finished jobs."""
    kinds = [instrument.kind for instrument in plan.instruments]
    if probes := kinds.count("probe"):
        yield f"When they have finished: {counted(probes, 'probe')}"
    if plan.spec.evaluate is not None and (evaluations := kinds.count("evaluate")):
        tasks = ", ".join(plan.spec.evaluate.tasks)
        yield f"When they have finished: {counted(evaluations, 'downstream evaluation')} on {tasks}"


def _to_come(plan: Plan, cost: Forecast) -> Iterator[str]:
    """What an adaptive sweep may add to itself, and how many jobs that is at most."""
    spec, more = plan.spec, cost.to_come
    if more is None:
        return
    if spec.search is not None:
        yield (
            f"Search by {spec.search.method}: {counted(spec.search.trials, 'trial')} at "
            f"{counted(len(spec.seeds), 'seed')}, the best of them on "
            f"{counted(spec.search.fresh_seeds, 'fresh seed')}"
        )
    elif spec.refine is not None:
        yield f"Refined: values of {spec.refine} between those listed, the same for every method"
    elif spec.seed_rule is not None:
        rule = spec.seed_rule
        yield (
            f"Seeds by a rule: {rule.start} to {rule.max} a pair, for intervals of ± {rule.half_width:g} nats"
        )
    yield (
        f"At most {counted(more.jobs, 'job')} more, {amount(more.tokens)} tokens, "
        f"{amount(more.flops, 'G')} FLOP"
    )


def _resolution(cost: Forecast) -> Iterator[str]:
    found = cost.resolution
    if found is None:
        return
    basis = f"measured on {counted(found.cells, 'cell')} of this size" if found.cells else "assumed"
    family = ""
    if found.comparisons > 1:
        size = "nothing" if found.family is None else f"{found.family:.2g}"
        family = f", {size} as one of {found.comparisons}"
    yield (
        f"At a standard deviation of {found.sd:.2g} nats ({basis}) a difference of {found.one:.2g} is found "
        f"with 80 % probability{family}."
    )


def _time(cost: Forecast) -> Iterator[str]:
    time = cost.time
    if time is None:
        return
    if not time.jobs:
        yield "Every job has its result: nothing would be trained."
        return
    unit, slot = ("GPU-hours", "GPU") if time.device == "cuda" else ("CPU slot-hours", "CPU slot")
    hours, seconds = time.slot_hours, time.seconds
    most = "At most " if cost.to_come else ""
    yield (
        f"{most}{counted(time.jobs, 'job')} to train: {hours.typical:.3g} {unit} ({hours.low:.3g} to "
        f"{hours.high:.3g}); on {counted(time.slots, slot)} {duration(seconds.typical)} "
        f"({duration(seconds.low)} to {duration(seconds.high)})."
    )
    yield f"  By {time.basis}."
    if time.memory is not None:
        basis = "measured" if time.memory_is_measured else "by a formula"
        yield f"Peak memory of a job: {time.memory / 2**30:.2g} GiB, {basis}."


def duration(seconds: float) -> str:
    """Such as 42 s, 3:05, 2:03:05 or 12 days."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole >= 3 * 86_400:
        return f"{whole / 86_400:.0f} days"
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02}:{rest % 60:02}" if hours else f"{rest // 60}:{rest % 60:02}"


def amount(value: float, billion: str = "B") -> str:
    """A number with three digits and its prefix: 1.23M. `billion` stands for 10⁹."""
    for exponent, prefix in ((21, "Z"), (18, "E"), (15, "P"), (12, "T"), (9, billion), (6, "M"), (3, "k")):
        # from where three digits round up to the prefix
        if value >= 0.9995 * 10**exponent:
            return f"{value / 10**exponent:.3g}{prefix}"
    return f"{value:g}"


def counted(number: int, noun: str) -> str:
    """Such as 1 job, or 2 jobs."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _cells(plan: Plan, cost: Forecast) -> Table:
    table = Table(title=escape(plan.spec.name))
    table.add_column("cell", justify="right")
    for axis in plan.spec.axes:
        table.add_column(axis, justify="right")
    for column in ("control", "parameters", "tokens", "FLOP"):
        table.add_column(column, justify="right")
    for cell in plan.cells[:MOST_ROWS]:
        one = cost.cells[cell.position]
        settings = [_value(cell.settings[axis]) if axis in cell.settings else "" for axis in plan.spec.axes]
        control = "is one" if cell.is_control else "" if cell.control is None else str(cell.control)
        table.add_row(
            str(cell.position),
            *settings,
            control,
            amount(one.parameters),
            amount(one.tokens),
            amount(one.flops, "G"),
        )
    return table


def _value(value: object) -> str:
    return escape(", ".join(value) if isinstance(value, tuple) else f"{value}")


def render_studies(found: Iterable[Study], console: Console) -> None:
    """Print the ready-made studies, a line each, with the cost of each and of its small variant."""
    rows = [("study", "jobs", "GPU-hours", "small: jobs", "GPU-hours", "question")]
    for study in found:
        small = _cost_fields(study.cost(small=True)) if study.has_small else ("", "")
        rows.append((study.name, *_cost_fields(study.cost()), *small, study.description))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers, question in rows:
        fields = (f"{number:>{width}}" for number, width in zip(numbers, widths[1:-1], strict=True))
        line = "  ".join((f"{name:<{widths[0]}}", *fields, question))
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    low, typical, high = (rate / 1e12 for rate in GPU_MODEL)
    console.print(
        f"GPU-hours at {typical:g} TFLOP/s a GPU, a guess between {low:g} and {high:g}; "
        "'headcount plan STUDY' goes by what was measured.",
        highlight=False,
        soft_wrap=True,
    )


def _cost_fields(cost: Cost) -> tuple[str, str]:
    # of small jobs most time is their start, which the model leaves out
    return str(cost.jobs), f"{cost.gpu_hours:.3g}" if cost.gpu_hours >= 0.1 else "< 0.1"

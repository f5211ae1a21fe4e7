"""A plan for people, as a table in the terminal, and for scripts, as plain data."""

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headcount.sweeps.forecast import Forecast, forecast
from headcount.sweeps.plan import Plan

MOST_ROWS = 40
"""Of the table in the terminal; the plain data have every cell."""


def plan_as_dict(plan: Plan) -> dict[str, Any]:
    """The plan and its forecast as plain data, ready for JSON."""
    cost = forecast(plan)
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
        "totals": {
            "cells": len(plan.cells),
            "controls": sum(cell.is_control for cell in plan.cells),
            "jobs": len(plan.jobs),
            "tokens": cost.tokens,
            "flops": cost.flops,
        },
        "half_width": cost.half_width,
        "warnings": list(cost.warnings),
    }


def render_plan(plan: Plan, console: Console) -> None:
    """Print the cells with their cost a job, the texts, the totals, and the warnings."""
    cost = forecast(plan)
    console.print(_cells(plan, cost))
    if len(plan.cells) > MOST_ROWS:
        console.print(f"… and {len(plan.cells) - MOST_ROWS} more cells")
    for text in plan.datasets:
        name, tokens = escape(text.name), amount(text.train_tokens)
        console.print(f"Text {name}: {tokens} training tokens, fingerprint {text.fingerprint[:12]}")
    controls = sum(cell.is_control for cell in plan.cells)
    seeds = len(plan.spec.seeds)
    console.print(
        f"{_count(len(plan.cells) - controls, 'treatment')} and {_count(controls, 'control')} "
        f"at {_count(seeds, 'seed')}: [bold]{_count(len(plan.jobs), 'job')}[/], "
        f"{amount(cost.tokens)} tokens, {amount(cost.flops, 'G')} FLOP in all"
    )
    if cost.half_width is not None and controls and controls < len(plan.cells):
        console.print(
            f"With {seeds} seeds, a delta's 95 % interval is ± {cost.half_width:.2g} times the standard "
            "deviation of its paired differences."
        )
    for warning in cost.warnings:
        console.print(f"[yellow]Warning:[/] {escape(warning)}")


def amount(value: float, billion: str = "B") -> str:
    """A number with three digits and its prefix: 1.23M. `billion` stands for 10⁹."""
    for exponent, prefix in ((21, "Z"), (18, "E"), (15, "P"), (12, "T"), (9, billion), (6, "M"), (3, "k")):
        # from where three digits round up to the prefix
        if value >= 0.9995 * 10**exponent:
            return f"{value / 10**exponent:.3g}{prefix}"
    return f"{value:g}"


def _count(number: int, noun: str) -> str:
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

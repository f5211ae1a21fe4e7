"""Rows of a file as runs: one a setting and seed, with its evaluations and the loss that it reports."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headcount.orchestrator.exchange.mapping import Columns, axis_value, real, whole
from headcount.orchestrator.exchange.records import Record
from headcount.trainer.errors import UserError
from headcount.trainer.tail import tail_mean, tail_start

MOST_REPORTED = 20
"""Bad rows named in one error."""


@dataclass
class Run:
    """One run, as the file tells it."""

    settings: dict[str, Any]
    seed: int
    first_line: int
    losses: dict[int | None, float] = field(default_factory=dict)
    """By step; under None where a row is a run. NaN where the run diverged."""
    lines: dict[int | None, int] = field(default_factory=dict)
    numbers: dict[str, float] = field(default_factory=dict)
    """Parameters, FLOPs and speed, where the file has them."""

    @property
    def last_step(self) -> int:
        return max((step for step in self.losses if step is not None), default=0)

    @property
    def diverged_step(self) -> int | None:
        """The first step without a finite loss; the last one known where a row is a run."""
        lost = [step or 0 for step, loss in self.losses.items() if not math.isfinite(loss)]
        return min(lost, default=None)

    def reported(self, steps: int) -> float | None:
        """The mean over the last quarter of `steps`; None for a run that ended before, or diverged."""
        if self.diverged_step is not None or self.last_step < steps:
            return None
        if None in self.losses:
            return self.losses[None]
        points = sorted((s, loss) for s, loss in self.losses.items() if s is not None)
        return tail_mean(points, steps) if points[-1][0] >= tail_start(steps) else None


def runs_of(
    file: Path, records: list[Record], columns: Columns, control: Mapping[str, Any]
) -> dict[tuple[Any, ...], Run]:
    """The runs of a file, in its order. Raises one `UserError` that names every bad row by its line.

    Without a column of seeds, each row (or, with steps, each setting) is a run of its own, numbered by its
    first line: such runs are never paired. A row without a value of an axis is one of a control, whose
    stream does not read the axis.
    """
    runs: dict[tuple[Any, ...], Run] = {}
    problems: list[str] = []
    for record in records:
        try:
            _add(runs, record, columns, control)
        except ValueError as error:
            problems.append(f"line {record.line}: {error}")
    if problems:
        listed = "\n  ".join(problems[:MOST_REPORTED])
        more = f"\n  and {len(problems) - MOST_REPORTED} more" if len(problems) > MOST_REPORTED else ""
        rows = "1 row" if len(problems) == 1 else f"{len(problems)} rows"
        raise UserError(f"{file}: {rows} cannot be imported, so none is\n  {listed}{more}")
    return runs


def _add(
    runs: dict[tuple[Any, ...], Run], record: Record, columns: Columns, control: Mapping[str, Any]
) -> None:
    """Add a row to its run. Raises ValueError for a row that says nothing clear."""
    values, numbers = record.values, columns.numbers
    settings = {
        axis: axis_value(axis, values[column]) for axis, column in columns.axes.items() if column in values
    }
    is_control = bool(control) and all(settings.get(axis) == value for axis, value in control.items())
    if not is_control and (absent := [a for a in columns.axes if a not in settings]):
        hint = "" if control else "; only runs that --control names may lack one"
        raise ValueError(f"no value of {absent[0]} (column {columns.axes[absent[0]]!r}){hint}")
    for name in ("seed", "step", "loss"):
        if name in numbers and numbers[name] not in values:
            raise ValueError(f"no {name} (column {numbers[name]!r})")
    loss = real("loss", values[numbers["loss"]])
    seed = whole("seed", values[numbers["seed"]]) if "seed" in numbers else None
    if seed is not None and seed >= 2**31:
        raise ValueError(f"seed {seed} is too large; expected less than {2**31}")
    step = whole("step", values[numbers["step"]]) if "step" in numbers else None
    apart = record.line if seed is None and step is None else seed
    key = (*settings.items(), apart)
    run = runs.setdefault(key, Run(settings, record.line if seed is None else seed, record.line))
    if step in run.losses:
        at = "" if step is None else f" at step {step}"
        raise ValueError(f"the same run{at} as line {run.lines[step]}")
    for name in ("parameters", "flops", "tokens_per_second"):
        if name in numbers and numbers[name] in values:
            value = real(name, values[numbers[name]])
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"{name} {value} is not a finite number of 0 or more")
            run.numbers[name] = value
    run.losses[step], run.lines[step] = loss, record.line

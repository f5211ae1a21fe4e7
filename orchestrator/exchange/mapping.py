"""Which column of a file of runs means what, and its values as the types that this asks for."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headcount.trainer.config import FIELDS, FieldError, check_field
from headcount.trainer.errors import UserError, nearest

NUMBERS = ("seed", "step", "loss", "parameters", "flops", "tokens_per_second")
"""What a column can mean other than an axis."""


@dataclass(frozen=True)
class Columns:
    """Column by meaning."""

    axes: dict[str, str]
    """Axis to its column: a field of a job, or any other dotted name."""
    numbers: dict[str, str]
    """Those of `NUMBERS` that the file has; `loss` always."""
    unused: tuple[str, ...] = field(default=())


def parse_pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` texts, several in one between commas, as a dictionary."""
    pairs: dict[str, str] = {}
    for part in (p for text in texts for p in text.split(",")):
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not name or not value:
            raise UserError(f"{option} {part!r}: expected NAME=VALUE")
        if name in pairs:
            raise UserError(f"{option}: {name} is given twice")
        pairs[name] = value
    return pairs


def map_columns(names: list[str], given: Mapping[str, str]) -> Columns:
    """What the columns mean: as `given`, and a column by the name of a field or number means that.

    Raises `UserError` for a column that is not there, an unknown field, or no loss.
    """
    meant = {n: n for n in names if n in FIELDS or n in NUMBERS}
    meant = {name: column for name, column in meant.items() if column not in given.values()} | dict(given)
    for name, column in meant.items():
        if column not in names:
            raise UserError(f"--map {name}={column}: the file has no such column; {nearest(column, names)}")
        section = name.partition(".")[0]
        if section in ("model", "train", "data") and "." in name and name not in FIELDS:
            raise UserError(f"--map {name}: unknown field; {nearest(name, FIELDS)}")
        if not re.fullmatch(r"[A-Za-z][\w.]{0,99}", name):
            raise UserError(f"--map {name!r}: an axis is named by letters, digits, _ and dots")
    if "loss" not in meant:
        raise UserError("no column is the loss; name it, as in --map loss=val_loss")
    axes = {name: column for name, column in meant.items() if name not in NUMBERS}
    if not axes:
        raise UserError("no column is an axis; name one, as in --map model.routing_heads=H")
    used = set(meant.values())
    return Columns(
        axes=axes,
        numbers={name: column for name, column in meant.items() if name in NUMBERS},
        unused=tuple(n for n in names if n not in used),
    )


def control_values(control: Mapping[str, str], columns: Columns) -> dict[str, Any]:
    """The axis values by which a run is a control, as their fields declare them.

    Raises `UserError` for what is no axis of the runs, or no value of it.
    """
    chosen = {}
    for axis, value in control.items():
        if axis not in columns.axes:
            raise UserError(f"--control {axis}: not an axis of these runs; {nearest(axis, columns.axes)}")
        try:
            chosen[axis] = axis_value(axis, value)
        except ValueError as error:
            raise UserError(f"--control {error}") from error
    return chosen


def axis_value(axis: str, value: object) -> Any:
    """A value of an axis: as the job's field declares it, else a number where it is one, else text.

    Raises ValueError for what the field does not take.
    """
    plain = _number(value) if isinstance(value, str) else value
    if axis not in FIELDS:
        return plain if isinstance(plain, int | float | str) else str(plain)
    if isinstance(plain, float) and plain.is_integer() and FIELDS[axis].type is int:
        plain = int(plain)
    try:
        return check_field(axis, value if FIELDS[axis].type is str else plain)
    except FieldError as error:
        raise ValueError(f"{axis}: {error.problem}") from error


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return number if math.isfinite(number) else text
    return text


def whole(name: str, value: object) -> int:
    """A number of at least 0 without a fraction. Raises ValueError."""
    number = real(name, value)
    if number < 0 or not number.is_integer() or number >= 2**63:
        raise ValueError(f"{name} {value!r} is not a whole number of 0 or more")
    return int(number)


def real(name: str, value: object) -> float:
    """A number, or NaN or infinity where it is written so. Raises ValueError."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        return float(value)
    except ValueError:
        raise ValueError(f"{name} {value!r} is not a number") from None

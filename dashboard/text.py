"""How values read on a page: numbers to a fixed number of digits, axes and settings by their short names."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from headcount.api.columns import DIGITS
from headcount.orchestrator.following.time_to_go import TimeToGo
from headcount.sweeps.rendering import duration

MINUS = "−"
NO_BREAK = "\u00a0"
NOTHING = "—"
"""What cannot be known is a dash, never 0."""

SHORT = {"model.routing_heads": "H", "model.kv_heads": "KV", "train.peak_lr": "LR"}
LONG = {
    "model.routing_heads": "Routing heads H",
    "model.kv_heads": "KV heads",
    "train.peak_lr": "Peak learning rate",
}


def number(value: float | None, digits: int = DIGITS) -> str:
    """A loss: 3.4601."""
    return NOTHING if value is None else f"{value:.{digits}f}".replace("-", MINUS)


def signed(value: float | None, digits: int = DIGITS) -> str:
    """A delta, always with its sign: −0.0471. What rounds to nothing is 0 without one."""
    if value is None:
        return NOTHING
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", MINUS)


def interval(low: float | None, high: float | None, digits: int = DIGITS) -> str:
    """[−0.0551, −0.0392]."""
    if low is None or high is None:
        return NOTHING
    return f"[{signed(low, digits)},{NO_BREAK}{signed(high, digits)}]"


def p_value(p: float | None) -> str:
    """As in the API's tables: 0.021, 0.0035, <0.0001."""
    if p is None:
        return NOTHING
    return "<0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}"


def p_equals(p: float | None) -> str:
    """A p in a sentence, which no line breaks: "p = 0.021", "p < 0.0001"."""
    written = p_value(p)
    return f"p\u00a0<\u00a0{written[1:]}" if written.startswith("<") else f"p\u00a0=\u00a0{written}"


def compact(value: float | None) -> str:
    """A large number with its prefix: 113.9k, 1.3G."""
    if value is None:
        return NOTHING
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.4g}{prefix}"
    return f"{value:.4g}"


def setting(value: Any) -> str:
    """A value of an axis as one writes it in a sweep file: 5e-4, 8, mhar."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e6 else _power(f"{value:g}")
    if isinstance(value, list | tuple):
        return ", ".join(map(setting, value))
    return NOTHING if value is None else str(value)


def _power(text: str) -> str:
    """0.0005 as 5e-4: learning rates are read by their power of ten."""
    if text.startswith("0.00"):
        text = f"{float(text):e}"
    mantissa, e, power = text.partition("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(power)}" if e else text


def short(axis: str) -> str:
    """An axis in one or two letters where it has them: H, KV, LR, else its field."""
    return SHORT.get(axis, axis.rpartition(".")[2])


def long(axis: str) -> str:
    """An axis as the title of a figure's axis."""
    return LONG.get(axis, axis)


def settings(values: Mapping[str, Any], without: Sequence[str] = ()) -> str:
    """A cell's settings: "H 8 · KV 4 · LR 5e-4", each on one line; empty for none."""
    return " · ".join(
        f"{short(axis)}{NO_BREAK}{setting(value)}" for axis, value in values.items() if axis not in without
    )


def cell_name(values: Mapping[str, Any], is_control: bool, without: Sequence[str] = ()) -> str:
    """A cell by its settings, a control marked: "control · KV 4"."""
    parts = ["control"] if is_control else []
    return " · ".join(filter(None, [*parts, settings(values, without)])) or "the only cell"


def seeds(values: Sequence[int]) -> str:
    """The seeds: "seeds 0, 1, 2"."""
    return ("seed " if len(values) == 1 else "seeds ") + ", ".join(map(str, values)) if values else "no seed"


class Absent(NamedTuple):
    """A cell that a figure does not draw."""

    name: str
    why: str


MOST_ABSENT = 6
"""Cells that are named as not drawn; the rest are counted."""


def not_drawn(absent: Sequence[Absent]) -> str:
    """Cells by why they are not drawn: "Not drawn: H 1, H 2 (missing); H 4 (1 of 3 diverged)"."""
    by_reason: dict[str, list[str]] = {}
    for one in absent[:MOST_ABSENT]:
        by_reason.setdefault(one.why, []).append(one.name)
    parts = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    parts += [f"and {len(absent) - MOST_ABSENT} more"] if len(absent) > MOST_ABSENT else []
    return f"Not drawn: {'; '.join(parts)}"


def plural(count: int, word: str) -> str:
    """A count of things: "1 job", "875 jobs"."""
    return f"{count:,} {word if count == 1 else word + 's'}"


def moment(time: datetime) -> str:
    """A moment in UTC, which the page's script turns into the viewer's zone."""
    return f"{time:%Y-%m-%d %H:%M} UTC"


def to_go(left: TimeToGo) -> str:
    """The time that is left: "3:05", "12:00 to 15:30", "2 to 3 days"."""
    least, most = duration(left.least), duration(left.most)
    return least if least == most else f"{least} to {most}"

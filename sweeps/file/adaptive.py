"""What a sweep adds to itself while it runs, as its file asks: a search, finer rates, seeds by a rule."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headcount.sweeps.file.document import Node
from headcount.sweeps.file.fields import field_value
from headcount.sweeps.file.values import LARGEST, known, positive, whole
from headcount.trainer.config import FIELDS
from headcount.trainer.errors import nearest

METHODS = ("tpe", "random", "gp", "cmaes")

MOST_TRIALS = 2000
"""Of one search: samplers get slower with every trial."""


@dataclass(frozen=True)
class Range:
    """An axis of a search: any value from `low` to `high`, both included; whole numbers where these are."""

    low: float
    high: float
    log: bool = False
    """Whether equal ratios, and not equal differences, are equally likely before anything is known."""

    def clipped(self, value: float) -> float:
        """The value within the range, with four digits where it is no whole number, for readers."""
        if isinstance(self.low, int):
            return int(value)
        return min(max(float(f"{value:.4g}"), self.low), self.high)


@dataclass(frozen=True)
class Search:
    """Cells are suggested one by one, by what the earlier ones came to. One trial is one cell."""

    method: Literal["tpe", "random", "gp", "cmaes"]
    trials: int
    parallel: int = 4
    """A trial is suggested when all but this many, less one, of those before it have their value: the same
    trials come out whatever job ends first."""
    seed: int = 0
    """Of the sampler."""
    objective: Literal["loss", "delta"] = "loss"
    """What is made small: the mean tail loss over the seeds, or its difference from the control's."""
    prune: bool = False
    """Whether a trial ends early whose first seed is behind the median of the trials before it."""
    fresh_seeds: int = 3
    """Seeds that no trial had, on which the best cell is trained again and reported."""


@dataclass(frozen=True)
class SeedRule:
    """Stein's two stages: `start` seeds first, then as many as an interval of `half_width` takes."""

    start: int
    max: int
    half_width: float
    """Nats: half of a delta's 95 % interval."""


def read_range(name: str, node: Node) -> Range:
    """An axis such as `{low: 1e-4, high: 3e-3, log: true}`. Raises `SpecError`."""
    given = known(node, "low", "high", "log")
    if missing := [key for key in ("low", "high") if key not in given]:
        raise node.error(f"lacks {missing[0]}; expected low and high, and log: true where ratios count")
    if FIELDS[name].type not in (int, float):
        raise node.error("a range is of numbers; list the values of this field")
    low, high = (field_value(name, given[key]) for key in ("low", "high"))
    log = given["log"].boolean() if "log" in given else False
    if not low < high:
        raise given["high"].error(f"got {high}, which is not above low, {low}")
    if log and low <= 0:
        raise given["low"].error(f"got {low}; expected a number above 0, since log is true")
    return Range(low, high, log)


def read_search(node: Node) -> dict[str, Any]:
    """The section `search`. Raises `SpecError`."""
    if node.value == "grid":
        return {}
    if not isinstance(node.value, dict):
        raise node.unexpected("grid, or a search such as {method: tpe, trials: 40}")
    given = known(node, "method", "trials", "parallel", "seed", "objective", "prune", "fresh_seeds")
    if missing := [key for key in ("method", "trials") if key not in given]:
        raise node.error(f"lacks {missing[0]}; expected method and trials, as in {{method: tpe, trials: 40}}")
    values: dict[str, Any] = {"method": given["method"].choice(METHODS)}
    for key, low, high in (
        ("trials", 1, MOST_TRIALS),
        ("parallel", 1, MOST_TRIALS),
        ("seed", 0, LARGEST),
        ("fresh_seeds", 0, LARGEST),
    ):
        if key in given:
            values[key] = whole(given[key], low, high)
    if "objective" in given:
        values["objective"] = given["objective"].choice(("loss", "delta"))
    if "prune" in given:
        values["prune"] = given["prune"].boolean()
    return {"search": Search(**values)}


def read_seed_rule(node: Node) -> dict[str, Any]:
    """The section `seeds` as a rule, such as `{start: 3, max: 10, half_width: 0.005}`. Raises `SpecError`."""
    given = known(node, "start", "max", "half_width")
    if missing := [key for key in ("start", "max", "half_width") if key not in given]:
        raise node.error(f"lacks {missing[0]}; expected start, max and half_width, or a list as in [0, 1, 2]")
    start = whole(given["start"], 2, LARGEST)
    rule = SeedRule(start, whole(given["max"], start, LARGEST), positive(given["half_width"]))
    return {"seeds": tuple(range(start)), "seed_rule": rule}


def read_refine(node: Node) -> dict[str, Any]:
    """The section `refine`: the name of an axis. Raises `SpecError`."""
    axis = node.text("the name of an axis, such as train.peak_lr")
    if axis not in FIELDS:
        raise node.error(f"unknown field {axis!r}; {nearest(axis, FIELDS)}")
    return {"refine": axis}


def check_adaptive(given: Mapping[str, Node], values: Mapping[str, Any]) -> None:
    """Whether what is added fits the rest of the file. Raises `SpecError`."""
    search, ranges = values.get("search"), values.get("ranges", {})
    rule, refine = values.get("seed_rule"), values.get("refine")
    if ranges and search is None:
        axis = next(iter(ranges))
        raise _axis(given, axis).error(
            "a range is for a search; add a line such as 'search: {method: tpe, trials: 40}', or list the "
            "values, as in [1e-4, 3e-4, 1e-3]"
        )
    if sum(part is not None for part in (search, rule, refine)) > 1:
        raise given["refine" if rule is None else "seeds"].error(
            "one of these a sweep: a search, refined values, seeds by a rule; give the seeds as a list, or "
            "let another sweep, which shares the jobs, do the rest"
        )
    if search is not None:
        _check_search(given, values, search, ranges)
    if rule is not None and values.get("control", True) is None:
        raise given["seeds"].error("half_width is a delta's: it needs controls; list the seeds, as in [0, 1]")
    if refine is not None:
        _check_refine(given, values.get("axes", {}), refine)


def _check_search(
    given: Mapping[str, Node], values: Mapping[str, Any], search: Search, ranges: Mapping[str, Range]
) -> None:
    axes = values.get("axes", {})
    if not axes:
        raise given["search"].error("there is no axis to search; add one under axes")
    if compared := [axis for axis in axes if axis.startswith("data.") or axis == "model.vocab_size"]:
        raise _axis(given, compared[0]).error("a search compares losses, which are of one text alone")
    if search.method == "cmaes" and (len(ranges) < 2 or len(ranges) < len(axes)):
        raise given["search"].error("cmaes searches two or more ranges, and no lists; take tpe or gp")
    if search.objective == "delta" and values.get("control", True) is None:
        raise given["search"].error("a delta needs controls; take objective: loss")
    if "analysis" in given:
        raise given["analysis"].error(
            "a search chooses cells by what it saw, which no fixed contrast survives; run the contrast as a "
            "sweep of its own, on the values found"
        )


def _check_refine(given: Mapping[str, Node], axes: Mapping[str, tuple[Any, ...]], axis: str) -> None:
    node = given["refine"]
    if axis not in axes:
        raise node.error(f"{axis!r} is not an axis of this sweep; list its values under axes")
    if FIELDS[axis].type is not float:
        raise node.error(f"{axis} has no values between those listed: it takes whole numbers or names")
    if len(axes[axis]) < 3 or min(axes[axis]) <= 0:
        raise node.error(f"{axis} needs three listed values above 0 or more, for one to lie inside")


def _axis(given: Mapping[str, Node], axis: str) -> Node:
    """Where the file gives an axis, written nested or dotted."""
    section, _, name = axis.partition(".")
    axes = given["axes"].mapping("axes")
    nested = axes.get(section)
    return axes[axis] if nested is None else nested.mapping("fields")[name]

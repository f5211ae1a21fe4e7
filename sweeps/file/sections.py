"""The parts of a sweep file, each read into fields of `SweepSpec`."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from headcount.sweeps.file.adaptive import Range, read_range, read_refine, read_search, read_seed_rule
from headcount.sweeps.file.document import Node
from headcount.sweeps.file.expression import ExpressionError, parse_expression
from headcount.sweeps.file.fields import dotted, field_value
from headcount.sweeps.file.instruments import read_evaluate, read_probe
from headcount.sweeps.file.resources import read_budget, read_resources
from headcount.sweeps.file.values import LARGEST, known, positive, whole
from headcount.trainer.config import FIELDS
from headcount.trainer.errors import nearest
from headcount.trainer.starting import INIT_FROM
from headcount.trainer.tail import FEWEST


@dataclass(frozen=True)
class Analysis:
    """The contrast fixed before the first job: the ends of an axis against its middle."""

    axis: str
    ends: tuple[Any, Any]
    middle: tuple[Any, ...]
    flat_margin: float | None = None
    """Nats within which an optimum counts as flat; none where flatness is not asked."""
    alpha: float = 0.05


def _name(node: Node) -> dict[str, Any]:
    name = node.text("a name")
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,99}", name):
        slug = re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:100]
        hint = f"; did you mean {slug!r}?" if re.match("[A-Za-z]", slug) else ""
        rule = "expected a letter, then letters, digits, - and _, 100 at most, since it stands in addresses"
        raise node.error(f"got {name!r}; {rule}{hint}")
    return {"name": name}


def _description(node: Node) -> dict[str, Any]:
    return {"description": node.text("text").strip()}


def _job(node: Node) -> dict[str, Any]:
    return {"job": {name: field_value(name, value) for name, value in dotted(node).items()}}


def _axes(node: Node) -> dict[str, Any]:
    axes: dict[str, tuple[Any, ...]] = {}
    ranges: dict[str, Range] = {}
    for name, axis in dotted(node).items():
        if name == INIT_FROM:
            raise axis.error("every cell starts from the same weights; give it in job")
        if isinstance(axis.value, dict):
            ranges[name] = read_range(name, axis)
            axes[name] = (ranges[name].low, ranges[name].high)
            continue
        values: dict[Any, None] = {}
        for item in axis.items("a list of values"):
            value = field_value(name, item)
            if value in values:
                raise item.error(f"{item.plain()!r} is listed twice")
            values[value] = None
        if not values:
            raise axis.error("an axis without values; list at least one, or remove the axis")
        axes[name] = tuple(values)
    return {"axes": axes, "ranges": ranges}


def _seeds(node: Node) -> dict[str, Any]:
    if isinstance(node.value, dict):
        return read_seed_rule(node)
    seeds: dict[int, None] = {}
    for item in node.items("a list such as [0, 1, 2]"):
        seed = whole(item, 0, LARGEST)
        if seed in seeds:
            raise item.error(f"{seed} is listed twice")
        seeds[seed] = None
    if not seeds:
        raise node.error("no seeds; expected a list such as [0, 1, 2]")
    return {"seeds": tuple(seeds)}


def _control(node: Node) -> dict[str, Any]:
    if node.value == "none":
        return {"control": None}
    if not isinstance(node.value, dict):
        raise node.unexpected("none, or fields such as {model.residual: additive}")
    control = {}
    for name, value in dotted(node).items():
        if not name.startswith("model.") or name in ("model.scale", "model.vocab_size"):
            raise value.error(
                "a control trains on the same tokens by the same recipe as its treatment; "
                "it may differ in fields of the model other than scale and vocab_size"
            )
        control[name] = field_value(name, value)
    if not control:
        raise node.error("empty; expected none, or fields such as {model.residual: additive}")
    return {"control": control}


def _skip(node: Node) -> dict[str, Any]:
    expressions = []
    for item in node.items('a list, as in ["model.d_model % model.routing_heads != 0"]'):
        text = item.text("an expression such as 'model.kv_heads > 4'").replace("\n", " ").strip()
        try:
            expressions.append(parse_expression(text))
        except ExpressionError as error:
            raise item.error(str(error)) from error
    return {"skip": tuple(expressions)}


def _analysis(node: Node) -> dict[str, Any]:
    given = known(node, "axis", "ends", "middle", "flat_margin", "alpha")
    if missing := [key for key in ("axis", "ends", "middle") if key not in given]:
        raise node.error(f"lacks {missing[0]}; expected axis, ends and middle")
    numbers = {key: positive(given[key]) for key in ("flat_margin", "alpha") if key in given}
    if numbers.get("alpha", 0) >= 1:
        raise given["alpha"].error(f"got {numbers['alpha']}; expected a number between 0 and 1")
    axis = given["axis"].text("the name of an axis")
    if axis not in FIELDS:
        raise given["axis"].error(f"unknown field {axis!r}; {nearest(axis, FIELDS)}")
    ends, middle = (
        tuple(field_value(axis, item) for item in given[key].items("a list of values of the axis"))
        for key in ("ends", "middle")
    )
    if len(ends) != 2:
        raise given["ends"].error(f"got {len(ends)} values; expected the two ends of the axis")
    if not middle:
        raise given["middle"].error("no values; expected one or more between the ends")
    return {"analysis": Analysis(axis, ends, middle, **numbers)}


def check_analysis(node: Node, analysis: Analysis, axes: Mapping[str, tuple[Any, ...]]) -> None:
    """Whether the analysis fits the axes: its values lie on one of them, the middle between the ends."""
    given = node.mapping("fields")
    if analysis.axis not in axes:
        raise given["axis"].error(f"{analysis.axis!r} is not an axis of this sweep; {_listed(axes)}")
    on_axis, seen = axes[analysis.axis], []
    for key, values in (("ends", analysis.ends), ("middle", analysis.middle)):
        for item, value in zip(given[key].items("values"), values, strict=True):
            if value not in on_axis:
                raise item.error(f"{value!r} is not a value of {analysis.axis}; {_listed(on_axis)}")
            if value in seen:
                raise item.error(f"{value!r} is named twice")
            seen.append(value)
    if all(isinstance(value, int | float) for value in seen):
        for item, value in zip(given["middle"].items("values"), analysis.middle, strict=True):
            if not min(analysis.ends) < value < max(analysis.ends):
                raise item.error(f"{value!r} does not lie between the ends")


def _listed(values: Collection[Any]) -> str:
    return f"expected one of {', '.join(map(str, values))}" if values else "there are none"


def _small(node: Node) -> dict[str, Any]:
    """What it holds is read where `spec.parse_spec` lays it over the file."""
    known(node, *(key for key in READERS if key not in ("name", "small")))
    return {}


READERS: dict[str, Callable[[Node], dict[str, Any]]] = {
    "name": _name,
    "description": _description,
    "job": _job,
    "axes": _axes,
    "seeds": _seeds,
    "control": _control,
    "skip": _skip,
    "search": read_search,
    "refine": read_refine,
    "order": lambda node: {"order": node.choice(("by_seed", "axis", "shuffled"))},
    "priority": lambda node: {"priority": whole(node, -LARGEST, LARGEST)},
    "on_failure": lambda node: {"on_failure": node.choice(("continue", "stop"))},
    "analysis": _analysis,
    "tail": lambda node: {"tail": whole(node, FEWEST, LARGEST)},
    "resources": read_resources,
    "budget": read_budget,
    "probe": read_probe,
    "evaluate": read_evaluate,
    "small": _small,
}
"""Every field of the sweep file, and how it is read."""

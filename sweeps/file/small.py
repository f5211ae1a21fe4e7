"""The small variant of a sweep: its file with the section `small` laid over it."""

import json
from collections.abc import Mapping

from headcount.sweeps.file.document import Node
from headcount.sweeps.file.fields import dotted

SUFFIX = "-small"
"""Of the variant's name: the two are sweeps of their own."""

_BY_FIELD = ("job", "axes")
"""Sections of which `small` replaces single fields; of any other it replaces the whole."""


def small_variant(top: Node) -> Node:
    """The file `top` as its section `small` has it; nodes keep their line and path.

    A field that `small` sets in `job` or under `axes` takes its place from both. Raises `SpecError` for a
    file without the section.
    """
    given = top.mapping("fields")
    if "small" not in given:
        raise top.error("has no small variant; add a section 'small' with what differs in it")
    over = given["small"].mapping("fields of the sweep that differ")
    fields = {key: node for key, node in {**given, **over}.items() if key != "small"}
    named = {name for section in _BY_FIELD if section in over for name in dotted(over[section])}
    for section in _BY_FIELD:
        own = dotted(over[section]) if section in over else {}
        base = dotted(given[section]) if section in given else {}
        kept = {name: own.get(name, node) for name, node in base.items() if name in own or name not in named}
        merged = kept | own  # an axis keeps its place
        place = given.get(section) or over.get(section)
        if place is not None:
            fields[section] = _with(place, merged)
    name = given["name"]
    fields["name"] = _with(name, f"{name.text('a name')}{SUFFIX}")
    return _with(top, fields)


def written(top: Node) -> str:
    """The file as text without a section `small`: it reads as `top` does."""
    lines = [f"# The small variant of {top.origin.rpartition('/')[2]}, as its section 'small' has it."]
    for key, node in top.mapping("fields").items():
        if isinstance(node.value, dict) and node.value:
            lines.append(f"{key}:")
            lines += [f"  {inner}: {_flow(child)}" for inner, child in node.value.items()]
        else:
            lines.append(f"{key}: {_flow(node)}")
    return "\n".join(lines) + "\n"


def _flow(node: Node) -> str:
    """As JSON, which YAML 1.2 reads as it is meant."""
    return json.dumps(node.plain(), ensure_ascii=False)


def _with(node: Node, value: str | Mapping[str, Node]) -> Node:
    return Node(value if isinstance(value, str) else dict(value), node.origin, node.line, node.path)

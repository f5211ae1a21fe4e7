"""A job's fields as a sweep's file gives them: by their dotted names, each held against its own rules."""

from typing import Any

from headcount.sweeps.file.document import Node
from headcount.sweeps.file.values import LARGEST
from headcount.trainer.config import FIELDS, SECTIONS, FieldError, check_field
from headcount.trainer.errors import nearest
from headcount.trainer.residuals.registry import stream_names
from headcount.trainer.scales import SCALES
from headcount.trainer.starting import INIT_FROM

_WRITTEN = (*(name for name in FIELDS if name != "init.weights"), INIT_FROM)
"""Fields as a file gives them."""


def dotted(node: Node) -> dict[str, Node]:
    """The job's fields under `node` by their dotted names, written nested by section or dotted."""
    found: dict[str, Node] = {}
    for key, child in node.mapping("fields of a job, such as 'model.residual: mhar'").items():
        inside = (
            {f"{key}.{k}": n for k, n in child.mapping(f"fields of {key}").items()}
            if key in SECTIONS
            else {key: child}
        )
        for name, value in inside.items():
            if name in found:
                raise value.error(f"given twice; first on line {found[name].line}")
            if name == "seed":
                raise value.error("seeds are listed at the top, as in 'seeds: [0, 1, 2]'")
            if name not in _WRITTEN:
                valid = SECTIONS if isinstance(value.value, dict) else _WRITTEN
                raise value.error(f"unknown field; {nearest(name, valid)}")
            found[name] = value
    return found


def field_value(name: str, node: Node) -> Any:
    """The value of a job's field, with the rules that a single value can be held against."""
    if node.value is None:
        raise node.error("has no value; leave the line out for the default")
    if name == INIT_FROM:
        return node.text("a model's file, its folder, or the beginning of a job's id")
    try:
        value = check_field(name, node.plain())
    except FieldError as error:
        raise node.error(error.problem) from error
    if isinstance(value, int) and value > LARGEST:
        raise node.error(f"got {value}; expected at most {LARGEST}")
    names = {"model.scale": tuple(SCALES), "model.residual": stream_names()}.get(name)
    if names and value not in names:
        raise node.error(f"unknown {name.partition('.')[2]} {value!r}; {nearest(value, names)}")
    return value

"""Where a sweep's file is to be mended when one of its cells breaks a rule of the trainer."""

from collections.abc import Iterator, Mapping
from typing import Any

from headcount.sweeps.file.document import SpecError
from headcount.sweeps.file.spec import SweepSpec
from headcount.trainer.config import FIELDS, FieldError, complete_fields

_MUST_DIVIDE = {
    "model.heads": "model.d_model",
    "model.kv_heads": "model.heads",
    "model.routing_heads": "model.d_model",
    "data.context": "train.batch_tokens",
}
"""A field, and the one that it has to divide."""


def cell_name(settings: Mapping[str, Any]) -> str:
    """A cell as messages name it."""
    return ", ".join(f"{axis}={value}" for axis, value in settings.items())


def field_places(spec: SweepSpec, name: str, settings: Mapping[str, Any] | None = None) -> Iterator[str]:
    """Where the file gives the job's field `name`, the nearest first: the axis's value, the axis, the job."""
    if name in spec.axes and settings is not None and settings.get(name) in spec.axes[name]:
        yield f"axes.{name}[{spec.axes[name].index(settings[name])}]"
    yield f"axes.{name}"
    yield f"job.{name}"


def broken_rule(spec: SweepSpec, settings: Mapping[str, Any], error: FieldError) -> SpecError:
    """The error of a cell that the trainer refuses, with the line of `skip` that would leave it out."""
    mentioned = [name for name in FIELDS if name != error.name and name in error.problem]
    involved = [axis for axis in (error.name, *mentioned) if axis in spec.axes]
    problem = error.problem + (f" (in the cell {cell_name(settings)})" if settings else "")
    if mentioned and involved:
        problem += f'; to leave such cells out, add to skip: "{_skip_line(spec, settings, error, involved)}"'
    if not any(place in spec.lines for place in field_places(spec, error.name)):
        problem = f"{error.name}: {problem}"  # by default, so that no line of the file names it
    places = [place for name in (*involved, error.name) for place in field_places(spec, name, settings)]
    return spec.error(problem, *places, "axes", "job")


def broken_control(spec: SweepSpec, settings: Mapping[str, Any], error: FieldError) -> SpecError:
    """The error of a control that the trainer refuses."""
    places = [f"control.{error.name}", *field_places(spec, error.name)]
    known = any(place in spec.lines for place in places)
    problem = error.problem if known else f"{error.name}: {error.problem}"
    return spec.error(
        f"{problem} (in the control of {cell_name(settings) or 'the cell'})", *places, "control"
    )


def _skip_line(spec: SweepSpec, settings: Mapping[str, Any], error: FieldError, involved: list[str]) -> str:
    if whole := _MUST_DIVIDE.get(error.name):
        fields = complete_fields({**spec.shared, **settings})
        if fields[whole] % fields[error.name]:
            return f"{whole} % {error.name} != 0"
    return " and ".join(f"{axis} == {settings[axis]!r}" for axis in involved)

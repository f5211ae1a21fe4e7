"""What a sweep asks for: its file, read strictly. What no code reads yet is refused, never ignored."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from headcount.sweeps.file import sections
from headcount.sweeps.file.adaptive import Range, Search, SeedRule, check_adaptive
from headcount.sweeps.file.document import Node, SpecError, parse_document, read_text
from headcount.sweeps.file.expression import Expression
from headcount.sweeps.file.fields import dotted
from headcount.sweeps.file.instruments import EvaluateAsked, ProbeAsked
from headcount.sweeps.file.resources import Resources
from headcount.sweeps.file.sections import Analysis
from headcount.sweeps.file.small import small_variant, written
from headcount.trainer.errors import nearest
from headcount.trainer.starting import INIT_FROM

__all__ = [
    "Analysis",
    "Range",
    "Resources",
    "Search",
    "SeedRule",
    "SpecError",
    "SweepSpec",
    "load_spec",
    "parse_spec",
]


@dataclass(frozen=True)
class SweepSpec:
    """One sweep file, checked field by field. Values stand as the job's fields declare them."""

    name: str
    text: str = field(repr=False)
    """The file as it was read."""
    origin: str
    """The file's path, as errors name it."""
    lines: Mapping[str, int] = field(repr=False, compare=False)
    """Where each field of the file stands, such as `axes.model.kv_heads[2]`."""
    description: str = ""
    job: Mapping[str, Any] = field(default_factory=dict)
    """Dotted fields that every cell shares."""
    axes: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """Dotted field to its values, in the file's order; of a range its two ends."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Those of the axes that a search takes any value of."""
    search: Search | None = None
    """None for the whole grid."""
    refine: str | None = None
    """The axis whose values are made finer around the best one; none for as listed."""
    seeds: tuple[int, ...] = (0,)
    """Those of every cell; of a rule those of its first stage."""
    seed_rule: SeedRule | None = None
    """How seeds are added to these; none for no others."""
    control: Mapping[str, Any] | None = field(default_factory=lambda: {"model.residual": "additive"})
    """The fields in which a control differs from its treatment; none for a sweep without controls."""
    skip: tuple[Expression, ...] = ()
    order: Literal["by_seed", "axis", "shuffled"] = "by_seed"
    priority: int = 0
    on_failure: Literal["continue", "stop"] = "continue"
    analysis: Analysis | None = None
    tail: int | None = None
    """Evaluations that a job's tail mean is over, the last ones; none for those of the last quarter."""
    resources: Resources = field(default_factory=Resources)
    probe: ProbeAsked | None = None
    """How finished jobs are probed; none for not at all."""
    evaluate: EvaluateAsked | None = None
    """The downstream tasks of finished jobs; none for none."""
    gpu_hours: float | None = None
    """The budget: jobs are dispatched while they fit in it; none for no bound."""
    folder: Path | None = field(default=None, compare=False)
    """Of the file: relative paths in `data.text` start there; none for text that was no file."""

    initial: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What `init.from` stands for: `init.weights`, and the fields of the weights' model. Empty until somebody
    has looked at it; until then its text stands for the weights, good enough to count jobs."""

    @property
    def shared(self) -> dict[str, Any]:
        """Dotted fields of a job that every cell has."""
        fields = {**self.initial, **self.job}
        if (source := fields.pop(INIT_FROM, None)) is not None:
            fields.setdefault("init.weights", hashlib.sha256(source.encode()).hexdigest())
        return fields

    @property
    def is_adaptive(self) -> bool:
        """Whether the sweep adds cells or seeds to itself while it runs."""
        return any(part is not None for part in (self.search, self.refine, self.seed_rule))

    def error(self, problem: str, *places: str) -> SpecError:
        """An error at the first of `places` that the file has."""
        place = next((p for p in places if p in self.lines), None)
        line = self.lines[place] if place else 1
        return SpecError(problem, origin=self.origin, line=line, field=place)


def load_spec(path: Path, small: bool = False) -> SweepSpec:
    """The sweep in the file `path`, or its small variant. Raises `SpecError` naming file, line and field."""
    return parse_spec(read_text(path), str(path), path.parent.absolute(), small)


def parse_spec(text: str, origin: str, folder: Path | None = None, small: bool = False) -> SweepSpec:
    """The sweep written in `text`, or its small variant; `origin` names the text in errors.

    Raises `SpecError`, also for a mistake in the section `small` when the variant is not asked for.
    """
    top = parse_document(text, origin)
    whole = _read(top, text, folder)
    if not small and "small" not in top.mapping("fields"):
        return whole
    top = small_variant(top)
    variant = _read(top, written(top), folder)
    # what the variant replaces is looked for by the names of the file that it replaces
    lines = {path.removeprefix("small."): line for path, line in variant.lines.items()}
    return replace(variant, lines=lines) if small else whole


def _read(top: Node, text: str, folder: Path | None) -> SweepSpec:
    given = top.mapping("fields")
    for key, node in given.items():
        if key == "external":
            raise node.error(
                "these results were trained elsewhere and imported; they cannot be trained again"
            )
        if key not in sections.READERS:
            raise node.error(f"unknown field; {nearest(key, sections.READERS)}")
        if node.value is None:
            raise node.error("has no value; leave the line out for the default")
    if "name" not in given:
        raise top.error("has no name; add a line such as 'name: my-sweep'")
    values: dict[str, Any] = {}
    for key, node in given.items():
        values.update(sections.READERS[key](node))
    _check_across(given, values)
    return SweepSpec(text=text, origin=top.origin, folder=folder, lines=dict(_lines(top)), **values)


def _check_across(given: Mapping[str, Node], values: Mapping[str, Any]) -> None:
    """The rules between the file's parts."""
    axes, job = values.get("axes", {}), values.get("job", {})
    if both := [name for name in axes if name in job]:
        places = dotted(given["axes"])
        first = dotted(given["job"])[both[0]].line
        raise places[both[0]].error(f"also set in job, on line {first}; give it in one place")
    if "analysis" in values:
        sections.check_analysis(given["analysis"], values["analysis"], axes)
    check_adaptive(given, values)


def _lines(node: Node) -> list[tuple[str, int]]:
    """Path and line of every node of the file."""
    below = node.value if isinstance(node.value, list) else []
    if isinstance(node.value, dict):
        below = list(node.value.values())
    return [(node.path, node.line), *(pair for child in below for pair in _lines(child))]

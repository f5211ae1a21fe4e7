"""What a sweep asks to be measured of its finished jobs: the sections `probe` and `evaluate` of its file."""

import re
from dataclasses import dataclass, field

from headcount.sweeps.file.document import Node
from headcount.sweeps.file.expression import Expression, ExpressionError, parse_expression
from headcount.sweeps.file.values import LARGEST, known, whole


@dataclass(frozen=True)
class Chosen:
    """Which training jobs an instrument looks at."""

    where: Expression | None = None
    """Over a job's fields, as in `skip`; none for every cell."""
    seeds: tuple[int, ...] | None = None
    """None for all."""


@dataclass(frozen=True)
class ProbeAsked:
    """As `trainer.probe.figures.Settings`. Only cells are probed whose residual stream can be."""

    windows: int = 64
    slices: int = 4
    draws: int = 8
    seed: int = 0
    chosen: Chosen = field(default_factory=Chosen)


@dataclass(frozen=True)
class EvaluateAsked:
    """Tasks of lm-eval, or of the folder `include`."""

    tasks: tuple[str, ...]
    include: str | None = None
    """A path, relative to the sweep's file; every node finds it there."""
    task_data: str | None = None
    """The path of a folder with the data sets of the hub that tasks read, each as `OWNER/NAME`."""
    limit: int | None = None
    """Only the first items of each task."""
    tokenizer: str | None = None
    """The path of the data set's `tokenizer.json`, where it has one."""
    chosen: Chosen = field(default_factory=Chosen)


_CHOICE = ("where", "seeds")


def read_probe(node: Node) -> dict[str, ProbeAsked | None]:
    """The section `probe`: true, false, or its settings. Raises `SpecError`."""
    if isinstance(node.value, bool):
        return {"probe": ProbeAsked() if node.value else None}
    if not isinstance(node.value, dict):
        raise node.unexpected("true, or settings such as {windows: 64, slices: 4}")
    lowest = {"windows": 2, "slices": 1, "draws": 1, "seed": 0}
    given = known(node, *lowest, *_CHOICE)
    values = {name: whole(given[name], low, LARGEST) for name, low in lowest.items() if name in given}
    return {"probe": ProbeAsked(**values, chosen=_chosen(given))}


def read_evaluate(node: Node) -> dict[str, EvaluateAsked | None]:
    """The section `evaluate`; an empty list asks for nothing. Raises `SpecError`."""
    if node.value == []:
        return {"evaluate": None}
    if not isinstance(node.value, dict):
        raise node.unexpected("tasks, such as {tasks: [lambada_openai, hellaswag]}")
    given = known(node, "tasks", "include", "task_data", "limit", "tokenizer", *_CHOICE)
    if "tasks" not in given:
        raise node.error("lacks tasks; expected a list such as [lambada_openai, hellaswag]")
    tasks: dict[str, None] = {}
    for item in given["tasks"].items("a list such as [lambada_openai, hellaswag]"):
        name = item.text("the name of a task")
        if not re.fullmatch(r"[A-Za-z0-9_.:/-]{1,60}", name):
            raise item.error(f"got {name!r}; expected a name of at most 60 letters, digits and _ . : / -")
        if name in tasks:
            raise item.error(f"{name} is listed twice")
        tasks[name] = None
    if not tasks:
        raise given["tasks"].error("no task; list at least one, or remove the section")
    return {
        "evaluate": EvaluateAsked(
            tasks=tuple(tasks),
            include=given["include"].text("a folder") if "include" in given else None,
            task_data=given["task_data"].text("a folder") if "task_data" in given else None,
            limit=whole(given["limit"], 1, LARGEST) if "limit" in given else None,
            tokenizer=given["tokenizer"].text("a file") if "tokenizer" in given else None,
            chosen=_chosen(given),
        )
    }


def _chosen(given: dict[str, Node]) -> Chosen:
    where = seeds = None
    if "where" in given:
        text = given["where"].text("an expression such as 'model.routing_heads == 1'")
        try:
            where = parse_expression(text.replace("\n", " ").strip())
        except ExpressionError as error:
            raise given["where"].error(str(error)) from error
    if "seeds" in given:
        seeds = tuple(whole(item, 0, LARGEST) for item in given["seeds"].items("a list such as [0, 1]"))
    return Chosen(where, seeds)

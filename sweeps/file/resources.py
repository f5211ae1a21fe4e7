"""What a sweep may use, as its file says under `resources` and `budget`. None of it is part of a job's id."""

import re
from dataclasses import dataclass
from typing import Any

from headcount.sweeps.file.document import Node
from headcount.sweeps.file.values import LARGEST, known, positive, whole


@dataclass(frozen=True)
class Resources:
    """What each job of a sweep is given, and how many may run at a time."""

    max_parallel: int | None = None
    """Jobs at a time at most; none for as many as there are slots."""
    gpus_per_job: int = 1
    """Each job shares its updates among that many, and has them to itself if they are several."""
    gpu_share: float | None = None
    """Part of a card that one job takes, at most 1; none where recorded peak memory decides (`auto`)."""
    accelerator: str | None = None
    """The kind of card that nodes are chosen by, as their labels name it; none for any."""


def read_resources(node: Node) -> dict[str, Any]:
    """The section `resources`. Raises `SpecError`."""
    given = known(node, "max_parallel", "gpus_per_job", "gpu_share", "accelerator")
    values: dict[str, Any] = {}
    if "max_parallel" in given:
        values["max_parallel"] = whole(given["max_parallel"], 1, LARGEST)
    if "gpus_per_job" in given:
        values["gpus_per_job"] = whole(given["gpus_per_job"], 1, LARGEST)
    if "gpu_share" in given and given["gpu_share"].value != "auto":
        values["gpu_share"] = _share(given["gpu_share"])
        if values["gpu_share"] < 1 and values.get("gpus_per_job", 1) > 1:
            raise given["gpu_share"].error("a job on several GPUs has them to itself; leave it out")
    if "accelerator" in given and given["accelerator"].value != "any":
        values["accelerator"] = _accelerator(given["accelerator"])
    return {"resources": Resources(**values)}


def read_budget(node: Node) -> dict[str, Any]:
    """The section `budget`. Raises `SpecError`."""
    given = known(node, "gpu_hours")
    if not given:
        raise node.error("empty; expected gpu_hours, as in {gpu_hours: 200}")
    return {"gpu_hours": positive(given["gpu_hours"])}


def _share(node: Node) -> float:
    expected = "auto, or a number above 0 and at most 1"
    value = float(node.number(expected))
    if not 0 < value <= 1:
        raise node.unexpected(expected)
    return value


def _accelerator(node: Node) -> str:
    expected = "any, or a kind of card as Ray labels it, such as H200"
    kind = node.text(expected)
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", kind):
        raise node.unexpected(expected)
    return kind

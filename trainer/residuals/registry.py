"""Which residual streams there are: one file each in this folder. Imports without torch.

A stream's file states, beside its class, what planning needs on a machine without torch:

    READS                         fields of the model that change its numbers, beyond those every model reads
    DIAGNOSTICS                   names of the figures that its `diagnose` gives
    label(model)                  what tables call it, with the form that these fields choose
    added_parameters(model)
    added_flops_per_token(model)  forward and backward
    kept_per_token(model)         values kept for the backward pass beyond those of the additive stream
    misfit(model)                 optional: the field that breaks a rule of the stream, and the problem
    PROBED                        optional: true where `trainer.probe` reads it, by its class's `sources`

These are taken from the file's text and run by themselves, so they may use nothing but the `model` given.
"""

import __future__

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from headcount.trainer.sections import ModelConfig

_FOLDER = Path(__file__).parent
_NOT_STREAMS = {"__init__", "registry", "interface", "routed", "details", "mixing", "expanded", "bench"}
_PLANNED = {
    "READS",
    "DIAGNOSTICS",
    "label",
    "added_parameters",
    "added_flops_per_token",
    "kept_per_token",
}
_OPTIONAL = {"misfit", "PROBED"}


@cache
def stream_names() -> tuple[str, ...]:
    """The names of all residual streams, sorted."""
    return tuple(sorted(p.stem for p in _FOLDER.glob("*.py") if p.stem not in _NOT_STREAMS))


@cache
def stream_reads(name: str) -> frozenset[str]:
    """The fields of `ModelConfig` that the stream `name` reads beyond those every model reads."""
    return frozenset(_planned(name)["READS"])


@cache
def stream_fields() -> frozenset[str]:
    """Every field that some stream reads: left out of a job's id where its own stream does not."""
    return frozenset().union(*(stream_reads(name) for name in stream_names()))


@cache
def stream_diagnostics(name: str) -> tuple[str, ...]:
    """The names of the figures that the stream `name` gives of a read."""
    return tuple(_planned(name)["DIAGNOSTICS"])


@cache
def probed_streams() -> tuple[str, ...]:
    """The names of the streams that the probe reads, sorted."""
    return tuple(name for name in stream_names() if _planned(name).get("PROBED"))


def stream_label(model: ModelConfig) -> str:
    """What a table calls the model's residual stream: which form of which method, and at what temperature."""
    label: Callable[[ModelConfig], str] = _planned(model.residual)["label"]
    parts, reads = [label(model)], stream_reads(model.residual)
    if "logit_scale" in reads:
        if model.logit_scale_form == "per_head":
            parts.append(f"logit scales learned from {model.logit_scale:g}")
        elif model.logit_scale != 1:
            parts.append(f"logit scale {model.logit_scale:g}")
    if "query_init" in reads and model.query_init == "normal":
        parts.append("random queries")
    if "query_decay" in reads and model.query_decay == "spared":
        parts.append("queries spared by weight decay")
    return ", ".join(parts)


def stream_misfit(model: ModelConfig) -> tuple[str, str] | None:
    """The field that breaks a rule of the model's residual stream, and the problem; None where none does."""
    misfit: Callable[[ModelConfig], tuple[str, str] | None] | None = _planned(model.residual).get("misfit")
    return misfit(model) if misfit else None


def added_parameters(model: ModelConfig) -> int:
    """Parameters that the model's residual stream adds to the transformer."""
    count: Callable[[ModelConfig], int] = _planned(model.residual)["added_parameters"]
    return count(model)


def added_flops_per_token(model: ModelConfig) -> float:
    """Floating-point operations that the model's residual stream adds, forward and backward."""
    count: Callable[[ModelConfig], float] = _planned(model.residual)["added_flops_per_token"]
    return count(model)


def kept_per_token(model: ModelConfig) -> float:
    """Values that the model's residual stream keeps for the backward pass beyond the additive one's."""
    count: Callable[[ModelConfig], float] = _planned(model.residual)["kept_per_token"]
    return count(model)


@cache
def _planned(name: str) -> dict[str, Any]:
    """The torch-free statements of the stream's file, by name."""
    file = _FOLDER / f"{name}.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if _defined_name(node) in _PLANNED | _OPTIONAL]
    found: dict[str, Any] = {}
    # with annotations left as text: they name classes that are not there
    exec(compile(tree, file, "exec", flags=__future__.annotations.compiler_flag), found)
    missing = _PLANNED - found.keys()
    assert not missing, f"{file} states no {', '.join(sorted(missing))}"
    return found


def _defined_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.FunctionDef):
        return node.name
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None

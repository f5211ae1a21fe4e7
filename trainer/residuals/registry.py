"""Which residual streams there are: one file each in this folder. Imports without torch.

A stream's file states, beside its class, what planning needs on a machine without torch: `READS`, the fields
of the model that change its numbers, and the functions `added_parameters` and `added_flops_per_token`. These
three are taken from the file's text and run by themselves, so they may use nothing but the `model` given.
"""

import __future__

import ast
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headcount.trainer.config import ModelConfig

_FOLDER = Path(__file__).parent
_NOT_STREAMS = {"__init__", "registry", "interface"}
_PLANNED = {"READS", "added_parameters", "added_flops_per_token"}


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


def added_parameters(model: "ModelConfig") -> int:
    """Parameters that the model's residual stream adds to the transformer."""
    count: Callable[[ModelConfig], int] = _planned(model.residual)["added_parameters"]
    return count(model)


def added_flops_per_token(model: "ModelConfig") -> float:
    """Floating-point operations that the model's residual stream adds, forward and backward."""
    count: Callable[[ModelConfig], float] = _planned(model.residual)["added_flops_per_token"]
    return count(model)


@cache
def _planned(name: str) -> dict[str, Any]:
    """The torch-free statements of the stream's file, by name."""
    file = _FOLDER / f"{name}.py"
    tree = ast.parse(file.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if _defined_name(node) in _PLANNED]
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

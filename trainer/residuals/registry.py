"""Which residual streams there are: one file each in this folder. Imports without torch.

A stream's file states `READS`, the fields of the model that change its numbers. It is read from the file's
text, so that planning a sweep on a machine without torch knows which fields enter a job's id.
"""

import ast
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_NOT_STREAMS = {"__init__", "registry", "interface"}


@cache
def stream_names() -> tuple[str, ...]:
    """The names of all residual streams, sorted."""
    return tuple(sorted(p.stem for p in _FOLDER.glob("*.py") if p.stem not in _NOT_STREAMS))


@cache
def stream_reads(name: str) -> frozenset[str]:
    """The fields of `ModelConfig` that the stream `name` reads beyond those every model reads."""
    tree = ast.parse((_FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == [
            "READS"
        ]:
            return frozenset(ast.literal_eval(node.value))
    raise AssertionError(f"trainer/residuals/{name}.py states no READS")


@cache
def stream_fields() -> frozenset[str]:
    """Every field that some stream reads: left out of a job's id where its own stream does not."""
    return frozenset().union(*(stream_reads(name) for name in stream_names()))

"""Small functions through Inductor: what runs between the matrix products, one kernel or two each.

A function has one definition, which runs as written on the CPU and in evaluations. A training pass on a GPU
takes it compiled. Shapes are static, since code made for one shape and reused for another would make bits
depend on which job a process ran first; a process compiles each shape once.
"""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import torch

P = ParamSpec("P")
T = TypeVar("T")

MOST_SHAPES = 1 << 20
"""Dynamo gives up on a function after 8 shapes, and a slot may meet many."""


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """`function` through Inductor, whole. In the exact mode Inductor picks its launches by rule."""
    if function not in _COMPILED:
        from torch._dynamo import config  # here, since it takes a second to import

        config.recompile_limit = config.accumulated_recompile_limit = MOST_SHAPES
        _COMPILED[function] = torch.compile(function, dynamic=False, fullgraph=True)
    return cast("Callable[P, T]", _COMPILED[function])


_COMPILED: dict[Callable[..., Any], Callable[..., Any]] = {}

"""The exact mode: the same job in the same environment gives the same bits."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_memory: Any = torch.utils.deterministic  # a property of the module, which its types do not know


@contextmanager
def exact_mode(threads: int) -> Iterator[None]:
    """Deterministic algorithms, full float32 products and `threads` CPU threads inside; outside, as before.

    Memory is not filled before use, which costs time and would only hide a fault.
    """
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = _memory.fill_uninitialized_memory
    precision = torch.get_float32_matmul_precision()
    threads_outside = torch.get_num_threads()
    try:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
        _memory.fill_uninitialized_memory = False
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(threads)
        yield
    finally:
        torch.set_num_threads(threads_outside)
        torch.set_float32_matmul_precision(precision)
        _memory.fill_uninitialized_memory = fill
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        if workspace is None:
            os.environ.pop("CUBLAS_WORKSPACE_CONFIG", None)
        else:
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = workspace

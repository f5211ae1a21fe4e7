"""PyTorch's global settings while a job computes: in the exact mode, the same job gives the same bits."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from headcount.trainer.execution import Execution

_memory: Any = torch.utils.deterministic  # a property of the module, which its types do not know


@contextmanager
def exact_mode(execution: Execution) -> Iterator[None]:
    """Full float32 products, `threads` CPU threads and no garbage collection inside; outside, as before.

    With `execution.exact`, algorithms are deterministic. Memory is not filled before use, which costs time
    and would only hide a fault. Python's collector, which can stop a step for half a second, waits.
    """
    workspace = os.environ.get("CUBLAS_WORKSPACE_CONFIG")
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fill = _memory.fill_uninitialized_memory
    precision = torch.get_float32_matmul_precision()
    threads_outside = torch.get_num_threads()
    collecting = gc.isenabled()
    try:
        gc.disable()
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(execution.exact)
        _memory.fill_uninitialized_memory = False
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(execution.threads)
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
        if collecting:
            gc.enable()

"""Shared set-up: kernels run in the interpreter where there is no GPU, tests on one thread and off line."""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")
for hub in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):  # read when their libraries are imported
    os.environ.setdefault(hub, "1")
if not os.path.exists("/dev/nvidia0"):
    # read when triton.jit decorates, so before any test imports a kernel
    os.environ.setdefault("TRITON_INTERPRET", "1")
# hundreds of interpreters start here: what one has compiled, the others read
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: a gzip header holds the time, and all workers must collect one list."""
    return argname if isinstance(val, bytes) else None

"""Shared set-up: kernels run in the interpreter where there is no GPU, and a test has one CPU thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
if not os.path.exists("/dev/nvidia0"):
    # read when triton.jit decorates, so before any test imports a kernel
    os.environ.setdefault("TRITON_INTERPRET", "1")

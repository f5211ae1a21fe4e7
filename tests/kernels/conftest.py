"""The kernels' tests run on the GPU where there is one, else small in Triton's interpreter (set in
tests/conftest.py).
"""

import pytest
import torch


@pytest.fixture
def poisoned(monkeypatch):
    """Uninitialised memory is NaN, so that a kernel which reads it, or leaves part of its output
    unwritten, fails.
    """

    def poison(allocate):
        def allocate_poisoned(*args, **kwargs):
            tensor = allocate(*args, **kwargs)
            return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

        return allocate_poisoned

    for where, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
        monkeypatch.setattr(where, name, poison(getattr(where, name)))

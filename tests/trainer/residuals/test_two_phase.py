"""The streams that read through `headcount.kernels` histories, by its two_phase kernels: small, on the CPU in
Triton's interpreter, in the form for training passes on a GPU.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module

import pytest
import torch
from residual_variants import perturb
from torch import Tensor

from headcount.kernels.forward import Forward
from headcount.trainer.config import JobConfig
from headcount.trainer.model.transformer import Transformer

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="test_gpu.py trains them there")


@pytest.mark.parametrize(("residual", "history"), [("mhar", "DepthHistory"), ("delta", "DeltaHistory")])
def test_a_training_pass_has_the_gradients_of_the_reference(
    small_job: Callable[..., JobConfig],
    monkeypatch: pytest.MonkeyPatch,
    residual: str,
    history: str,
) -> None:
    """Outputs are computed in their places in the history: the embedding alone is copied."""
    config = small_job(model__residual=residual)
    stream = import_module(f"headcount.trainer.residuals.{residual}")
    copied = []
    run_write = Forward.run_write

    def recorded(self: Forward, source: Tensor, index: int, *, copy: bool) -> None:
        copied.append(copy)
        run_write(self, source, index, copy=copy)

    monkeypatch.setattr(Forward, "run_write", recorded)
    usual = getattr(stream, history)

    def gradients(implementation: str) -> dict[str, Tensor]:
        monkeypatch.setattr(stream, history, partial(usual, implementation=implementation))
        model = Transformer(config.model, 16, seed=0)
        perturb(model)
        model.speed_up(compile=False)
        model.add_gradient(torch.arange(10).view(2, 5), 8)
        return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    expected = gradients("reference")
    assert not copied
    torch.testing.assert_close(gradients("two_phase"), expected, rtol=1e-3, atol=1e-6)
    assert sum(copied) == 1

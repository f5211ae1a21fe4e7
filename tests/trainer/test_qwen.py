"""The additive model is a Qwen3 with its embedding tied: equal to transformers' implementation of it."""

from collections.abc import Callable

import pytest
import torch
from qwen import ours_of, paired, random_qwen
from torch import Tensor

from headcount.trainer.config import JobConfig


def tokens_of(job: JobConfig) -> Tensor:
    shape = (3, job.data.context)
    return torch.randint(0, job.model.vocab_size, shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def _no_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs computes norms, angles and the softmax in float32 whatever its weights: here in float64 too."""
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(Tensor, "float", Tensor.double)


@pytest.mark.usefixtures("_no_float32")
@pytest.mark.parametrize(("kv_heads", "theta"), [(1, 1e4), (2, 1e4), (4, 1e4), (2, 5e5)])
def test_logits_and_gradients_equal_those_of_transformers(
    small_job: Callable[..., JobConfig], kv_heads: int, theta: float
) -> None:
    job = small_job(model__kv_heads=kv_heads, model__rope_theta=theta, model__layers=3)
    qwen = random_qwen(job)
    ours = ours_of(qwen, job)
    windows = tokens_of(job)
    theirs = qwen(windows).logits
    assert theirs.std() > 1  # the comparison is of something
    assert torch.allclose(ours(windows), theirs, rtol=0, atol=1e-11)
    mine = ours.token_losses(windows).sum() / windows[:, 1:].numel()
    target = windows[:, 1:].flatten()
    loss = torch.nn.functional.cross_entropy(theirs[:, :-1].flatten(0, 1), target)
    assert mine.item() == pytest.approx(loss.item(), rel=1e-12)
    weights = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (ours(windows) * weights).sum().backward()
    (theirs * weights).sum().backward()
    for name, parameter in paired(qwen):
        gradient = ours.get_parameter(name).grad
        assert gradient is not None
        assert parameter.grad is not None
        assert torch.allclose(gradient, parameter.grad, rtol=1e-9, atol=1e-10), name

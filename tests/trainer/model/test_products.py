"""The form for training passes on a GPU, on the CPU and in float32: the gradients of the plain form."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from headcount.trainer.config import JobConfig
from headcount.trainer.model.lookup import add_by_token
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.residuals.registry import stream_names

PRETRAINED = {
    "model__qk_norm": "none",
    "model__qkv_bias": "learned",
    "model__unembedding": "own",
    "model__head_width": 6,
}
"""What models of other programs may have."""


@pytest.mark.parametrize(
    ("residual", "options"),
    [
        *((residual, {}) for residual in stream_names()),
        *((residual, PRETRAINED) for residual in ("additive", "mhar_hw", "value_residual")),
    ],
)
def test_working_copies_give_the_gradients_of_the_plain_form(
    small_job: Callable[..., JobConfig], residual: str, options: dict[str, object]
) -> None:
    config = small_job(model__residual=residual, model__layers=4, **options)
    windows = torch.randint(256, (3, 17), generator=torch.Generator().manual_seed(0))

    def gradients(working: bool) -> tuple[Tensor, dict[str, Tensor]]:
        model = Transformer(config.model, 16, seed=0)
        if working:
            model.speed_up(compile=False)
        loss = sum(model.add_gradient(part, 48, z_loss=1e-2) for part in (windows[:2], windows[2:]))
        assert isinstance(loss, Tensor)
        return loss, {name: p.grad for name, p in model.named_parameters() if p.grad is not None}

    (plain_loss, plain), (loss, working) = gradients(False), gradients(True)
    assert torch.allclose(loss, plain_loss, rtol=1e-6, atol=0)
    assert working.keys() == plain.keys()
    for name, gradient in plain.items():
        assert (working[name] - gradient).norm() <= 1e-3 * gradient.norm() + 1e-10, name


def test_padding_of_the_vocabulary_has_no_effect(small_job: Callable[..., JobConfig]) -> None:
    """19 tokens are 64 rows of the head: loss and gradients are those of 19, whatever the padding holds."""
    config = small_job(model__vocab_size=19)
    windows = torch.randint(19, (3, 17), generator=torch.Generator().manual_seed(0))
    plain, padded = (Transformer(config.model, 16, seed=0) for _ in range(2))
    matrices = padded.speed_up(compile=False)
    head = matrices.matrix(padded.embedding)
    assert (head.copy.shape, head.gradient.shape) == ((64, 16), (64, 16))
    assert not head.copy[19:].any()
    assert torch.equal(head.copy[:19], plain.embedding)
    loss, expected = padded.add_gradient(windows, 48, z_loss=0.5), plain.add_gradient(windows, 48, z_loss=0.5)
    assert torch.allclose(loss, expected, rtol=1e-6, atol=0)
    for (name, one), other in zip(padded.named_parameters(), plain.parameters(), strict=True):
        assert one.shape == other.shape
        assert one.grad is not None
        assert other.grad is not None
        assert torch.allclose(one.grad, other.grad, rtol=1e-3, atol=1e-8), name
    assert not head.gradient[19:].any()


def test_an_evaluation_reads_the_masters(small_job: Callable[..., JobConfig]) -> None:
    model = Transformer(small_job().model, 16, seed=0)
    windows = torch.randint(256, (2, 17), generator=torch.Generator().manual_seed(0))
    matrices = model.speed_up(compile=False)
    with torch.no_grad():
        before = model.token_losses(windows)
        for parameter in model.parameters():
            parameter.mul_(1.5)
        changed = model.token_losses(windows)
    assert not torch.isclose(before, changed).any()
    stale = model.add_gradient(windows, 32)
    assert not torch.isclose(stale, changed.mean())
    matrices.renew()
    assert torch.allclose(model.add_gradient(windows, 32), changed.mean())


@pytest.mark.parametrize("width", [3, 16, 1100])
def test_rows_are_added_by_token(width: int) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(7, (50,), generator=generator)
    tokens[10:40] = 5  # a run longer than one load
    rows = torch.randn(50, width, generator=generator)
    gradient = torch.randn(9, width, generator=generator)
    expected = gradient.double().index_add(0, tokens, rows.double())
    add_by_token(gradient, tokens, rows)
    assert torch.allclose(gradient.double(), expected, rtol=0, atol=1e-5)

"""The head's loss in chunks against the loss of whole logits."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcount.trainer.model import head, head_kernel
from headcount.trainer.model.head import (
    add_head_gradient,
    chunk_tokens,
    gradient_chunk_tokens,
    head_gradient,
    token_losses,
)
from headcount.trainer.model.products import Matrix

VOCABULARY, WIDTH, TOKENS = 300, 24, 700


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(TOKENS, WIDTH, generator=generator)
    weight = torch.randn(VOCABULARY, WIDTH, generator=generator)
    return hidden, weight, torch.randint(VOCABULARY, (TOKENS,), generator=generator)


@pytest.fixture
def in_ragged_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "CHUNK_LOGITS", VOCABULARY * 256)
    assert chunk_tokens(TOKENS, VOCABULARY) == 256  # 256 + 256 + 188


@pytest.mark.usefixtures("in_ragged_chunks")
@pytest.mark.parametrize("z_loss", [0.0, 0.1])
def test_chunks_give_the_loss_and_gradient_of_the_whole(z_loss: float) -> None:
    hidden, weight, targets = inputs()
    exact_hidden, exact_weight = hidden.double().requires_grad_(), weight.double().requires_grad_()
    logits = F.linear(exact_hidden, exact_weight)
    loss = F.cross_entropy(logits, targets)
    (loss + z_loss * logits.logsumexp(-1).square().mean()).backward()
    found = head_gradient(hidden, weight, targets, TOKENS, z_loss)
    assert exact_hidden.grad is not None
    assert exact_weight.grad is not None
    assert found.weight is not None
    assert found.loss.item() == pytest.approx(loss.item(), rel=1e-6)  # without z-loss
    assert torch.allclose(found.hidden.double(), exact_hidden.grad, rtol=1e-4, atol=1e-8)
    assert torch.allclose(found.weight.double(), exact_weight.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("in_ragged_chunks")
def test_losses_by_token_in_chunks() -> None:
    hidden, weight, targets = inputs()
    whole = F.cross_entropy(F.linear(hidden.double(), weight.double()), targets, reduction="none")
    assert torch.allclose(token_losses(hidden, weight, targets).double(), whole, atol=1e-5)


def test_three_and_five_parts_make_the_eight() -> None:
    hidden, weight, targets = inputs()
    whole = head_gradient(hidden, weight, targets, TOKENS, 0.0)
    cut = 3 * TOKENS // 8
    parts = [
        head_gradient(hidden[rows], weight, targets[rows], TOKENS, 0.0)
        for rows in (slice(0, cut), slice(cut, TOKENS))
    ]
    assert torch.allclose(parts[0].loss + parts[1].loss, whole.loss, rtol=1e-6)
    assert torch.allclose(torch.cat([part.hidden for part in parts]), whole.hidden, rtol=1e-5, atol=1e-9)
    assert whole.weight is not None
    assert parts[0].weight is not None
    assert parts[1].weight is not None
    assert torch.allclose(parts[0].weight + parts[1].weight, whole.weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("tokens", "vocabulary", "size"), [(1024, 256, 1024), (16_384, 151_936, 1664)])
def test_chunks_hold_at_most_their_logits(tokens: int, vocabulary: int, size: int) -> None:
    assert chunk_tokens(tokens, vocabulary) == size
    assert size * vocabulary <= head.CHUNK_LOGITS


@pytest.mark.parametrize(
    ("tokens", "vocabulary", "size"),
    [(1024, 256, 1024), (2048, 151_936, 1024), (4096, 151_936, 1408), (16_384, 151_936, 4096)],
)
def test_a_training_pass_has_few_chunks(tokens: int, vocabulary: int, size: int) -> None:
    assert gradient_chunk_tokens(tokens, vocabulary) == size


@pytest.mark.usefixtures("in_ragged_chunks")
def test_the_gradient_by_hand_in_ragged_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "MOST_CHUNKS", 6)
    hidden, weight, targets = inputs()
    assert gradient_chunk_tokens(TOKENS, VOCABULARY) == 256  # 256 + 256 + 188
    whole = head_gradient(hidden, weight, targets, TOKENS, 0.1)
    matrix = Matrix(weight, torch.ones_like(weight))
    found = add_head_gradient(hidden, matrix, VOCABULARY, targets, TOKENS, 0.1)
    assert whole.weight is not None
    assert torch.allclose(found.loss, whole.loss, rtol=1e-6)
    assert torch.allclose(found.hidden, whole.hidden, rtol=1e-4, atol=1e-7)
    assert torch.allclose(matrix.gradient - 1, whole.weight, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("z_loss", [0.0, 0.1])
@pytest.mark.parametrize("block", [64, 512])
def test_the_kernel_writes_the_gradient_over_the_logits(
    monkeypatch: pytest.MonkeyPatch, block: int, z_loss: float
) -> None:
    monkeypatch.setattr(head_kernel, "BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    logits = 20 * torch.randn(7, 320, generator=generator)  # 300 classes and padding
    targets = torch.randint(VOCABULARY, (7,), generator=generator)
    plain, ours = logits.clone(), logits.clone()
    expected = head.write_logit_gradient(plain, VOCABULARY, targets, 1 / 7, z_loss)
    found = head_kernel.write_logit_gradient(ours, VOCABULARY, targets, 1 / 7, z_loss)
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.allclose(ours, plain, rtol=1e-4, atol=1e-7)
    assert not ours[:, VOCABULARY:].any()


def test_what_is_not_finite_shows_in_the_loss() -> None:
    logits = torch.zeros(2, 64)
    logits[1, 5] = float("nan")
    losses = head_kernel.write_logit_gradient(logits, 64, torch.tensor([3, 3]), 1.0, 0.0)
    assert losses[0].item() == pytest.approx(4.1588831)
    assert not losses[1].isfinite()

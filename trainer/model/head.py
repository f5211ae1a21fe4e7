"""The head and its loss, in chunks of tokens, so that the logits are never whole.

For each chunk the loss and its gradient are computed together, and only gradients leave the chunk: those of
the hidden states and of the head's weight, which is the embedding. What is minimised is

    (1 / tokens) · Σ over tokens of (loss + z_loss · lse²),    loss = lse − logit of the target,

where lse is the logarithm of the softmax's normaliser (PaLM's z-loss, arXiv 2204.02311, section 5).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from headcount.trainer.model.products import Matrix

CHUNK_LOGITS = 2**28
"""Logits of one chunk: 0.5 GB in bf16."""

MOST_CHUNKS = 4
"""Of a training pass by hand."""


class HeadGradient(NamedTuple):
    """Of one pass: its share of the mean loss without z-loss, and the gradients of the hidden states
    [tokens, d_model] and of the weight [vocab_size, d_model]; none where the weight's was added in place."""

    loss: Tensor
    hidden: Tensor
    weight: Tensor | None


def chunk_tokens(tokens: int, vocab_size: int) -> int:
    """Tokens of one chunk: equal parts rounded up to whole tiles of a product; the last may be shorter."""
    chunks = math.ceil(tokens * vocab_size / CHUNK_LOGITS)
    return min(tokens, math.ceil(tokens / chunks / 128) * 128)


def gradient_chunk_tokens(tokens: int, vocab_size: int) -> int:
    """The same for `add_head_gradient`, which reads and writes the weight's float32 gradient once a chunk:
    more logits where that saves a fifth chunk."""
    return max(chunk_tokens(tokens, vocab_size), min(tokens, math.ceil(tokens / MOST_CHUNKS / 128) * 128))


def token_losses(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Cross entropy in nats [tokens], for hidden [tokens, d_model] and weight [vocab_size, d_model]."""
    size = chunk_tokens(len(hidden), len(weight))
    parts = [
        F.cross_entropy(F.linear(part, weight).float(), chosen, reduction="none")
        for part, chosen in zip(torch.split(hidden, size), torch.split(targets, size), strict=True)
    ]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def head_gradient(
    hidden: Tensor, weight: Tensor, targets: Tensor, tokens: int, z_loss: float
) -> HeadGradient:
    """By autograd, chunk by chunk. `tokens` is how many the mean runs over, in all passes of the update."""
    size = chunk_tokens(len(hidden), len(weight))
    loss, of_hidden = hidden.new_zeros((), dtype=torch.float32), []
    of_weight: Tensor | None = None
    weight = weight.detach().requires_grad_()
    for part, chosen in zip(torch.split(hidden.detach(), size), torch.split(targets, size), strict=True):
        with torch.enable_grad():
            part.requires_grad_()
            logits = F.linear(part, weight).float()
            share = F.cross_entropy(logits, chosen, reduction="none").sum() / tokens
            minimised = share
            if z_loss:
                minimised = share + z_loss * logits.logsumexp(-1).square().sum() / tokens
            gradients = torch.autograd.grad(minimised, (part, weight))
        loss += share.detach()
        of_hidden.append(gradients[0])
        of_weight = gradients[1] if of_weight is None else of_weight.add_(gradients[1])
    return HeadGradient(loss, of_hidden[0] if len(of_hidden) == 1 else torch.cat(of_hidden), of_weight)


@torch.no_grad()
def add_head_gradient(
    hidden: Tensor,
    matrix: Matrix,
    vocab_size: int,
    targets: Tensor,
    tokens: int,
    z_loss: float,
) -> HeadGradient:
    """The same by hand: the gradient of the logits is written over them, and the weight's is added to
    `matrix.gradient` in float32 by the product itself. Rows of the matrix from `vocab_size` on are padding,
    with no effect on loss or gradient."""
    size = gradient_chunk_tokens(len(hidden), len(matrix.copy))
    losses = torch.empty(len(hidden), dtype=torch.float32, device=hidden.device)
    of_hidden = torch.empty_like(hidden)
    write_gradient = write_logit_gradient
    if hidden.is_cuda:
        from headcount.trainer.model import head_kernel  # needs triton

        write_gradient = head_kernel.write_logit_gradient
    for start in range(0, len(hidden), size):
        part, chosen = hidden[start : start + size], targets[start : start + size]
        logits = F.linear(part, matrix.copy)
        losses[start : start + size] = write_gradient(logits, vocab_size, chosen, 1 / tokens, z_loss)
        torch.mm(logits, matrix.copy, out=of_hidden[start : start + size])
        matrix.add_gradient(logits, part)
    return HeadGradient(losses.sum() / tokens, of_hidden, None)


def write_logit_gradient(
    logits: Tensor, vocab_size: int, targets: Tensor, scale: float, z_loss: float
) -> Tensor:
    """Write the gradient of `scale` · Σ (loss + z_loss · lse²) over the logits [tokens, classes].

    Classes from `vocab_size` on are none: their gradient is 0. Returns the losses [tokens]. The softmax is
    float32.
    """
    exact = logits.float()
    classes = torch.arange(logits.shape[-1], device=logits.device)
    if logits.shape[-1] > vocab_size:
        exact = torch.where(classes < vocab_size, exact, -math.inf)
    lse = exact.logsumexp(-1, keepdim=True)
    losses = lse - exact.gather(-1, targets.unsqueeze(-1))
    gradient = (exact - lse).exp() * (scale + 2 * z_loss * scale * lse)
    gradient = gradient - torch.where(classes == targets.unsqueeze(-1), scale, 0.0)
    logits.copy_(gradient)
    return losses.squeeze(-1)

"""The embedding of a training pass on a GPU: a look-up whose gradient is a sorted sum, in place."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, nn

from headcount.trainer.model.products import Matrix


def look_up(tokens: Tensor, embedding: nn.Parameter, matrix: Matrix) -> Tensor:
    """Rows of `matrix`, the working copy of `embedding`, for integer tokens [...]: [..., d_model]."""
    rows: Tensor = _LookUp.apply(tokens, embedding, matrix)  # type: ignore[no-untyped-call]
    return rows


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tokens: Tensor, embedding: Tensor, matrix: Matrix) -> Tensor:
        ctx.save_for_backward(tokens)
        ctx.matrix = matrix
        return F.embedding(tokens, matrix.copy)

    @staticmethod
    def backward(ctx: Any, of_rows: Tensor) -> tuple[None, None, None]:
        add_by_token(ctx.matrix.gradient, ctx.saved_tensors[0].flatten(), of_rows.flatten(0, -2))
        return None, None, None


def add_by_token(gradient: Tensor, tokens: Tensor, rows: Tensor) -> None:
    """Add each row [n, d] to its token's row of `gradient` [vocab_size, d], float32, in a fixed order: the
    same bits every time, where atomic sums would differ."""
    ordered, order = tokens.sort(stable=True)
    rows, width = rows.contiguous(), rows.shape[1]
    block = min(1024, triton.next_power_of_2(width))
    _add_runs[(len(tokens), triton.cdiv(width, block))](
        gradient, ordered, order, rows, len(tokens), width, ROWS=8, BLOCK=block, num_warps=4
    )


@triton.jit
def _add_runs(gradient, ordered, order, rows, count, width, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """A program adds up one run of equal tokens, if one starts at its position, over BLOCK columns."""
    position = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    token = tl.load(ordered + position)
    before = tl.load(ordered + position - 1, mask=position > 0, other=-1)
    if token != before:
        target = gradient + token * width + column
        total = tl.load(target, mask=inside, other=0.0)
        at = position + tl.arange(0, ROWS)
        equal = tl.load(ordered + at, mask=at < count, other=-1) == token
        while tl.sum(equal.to(tl.int32), 0) > 0:
            row = tl.load(order + at, mask=equal, other=0)
            mask = equal[:, None] & inside[None, :]
            some = tl.load(rows + row[:, None] * width + column[None, :], mask=mask, other=0.0)
            total += tl.sum(some.to(tl.float32), 0)
            at += ROWS
            equal = tl.load(ordered + at, mask=at < count, other=-1) == token
        tl.store(target, total, mask=inside)

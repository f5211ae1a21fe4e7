from typing import Any

import pytest
import torch
from torch import Tensor

from headcount.trainer.residuals.mixing import mix_by_head, recomputed, sinkhorn, weighted_sum


def draw(*shape: int, std: float = 1.0) -> Tensor:
    return std * torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("size", [1, 2, 4, 16])
def test_rows_and_columns_sum_to_one(size: int) -> None:
    matrix = sinkhorn(draw(50, size, size, std=0.5))
    assert (matrix >= 0).all()
    assert torch.allclose(matrix.sum(-1), torch.ones(50, size), atol=1e-4)
    assert torch.allclose(matrix.sum(-2), torch.ones(50, size), atol=1e-4)


@pytest.mark.parametrize("std", [30.0, 1e4, 1e30])
def test_large_logits_give_finite_mixing_and_gradients(std: float) -> None:
    logits = draw(50, 4, 4, std=std).requires_grad_()
    matrix = sinkhorn(logits)
    matrix.square().sum().backward()
    assert torch.allclose(matrix.sum(-1), torch.ones(50, 4), atol=1e-4)
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_a_large_diagonal_is_nearly_the_identity() -> None:
    matrix = sinkhorn(20 * torch.eye(4, dtype=torch.float64))
    assert torch.allclose(matrix, torch.eye(4, dtype=torch.float64), atol=1e-5)


def test_torch_compile_leaves_the_chain_alone() -> None:
    seen: list[str] = []

    def record(module: Any, inputs: Any) -> Any:
        seen.extend(str(node.target) for node in module.graph.nodes if node.op != "placeholder")
        return module.forward

    torch._dynamo.reset()
    logits = draw(3, 4, 4)
    compiled = torch.compile(lambda x: sinkhorn(x * 2) + 1, backend=record)
    assert torch.equal(compiled(logits), sinkhorn(logits * 2) + 1)
    torch._dynamo.reset()
    assert any("mul" in name for name in seen)
    assert any("add" in name for name in seen)
    assert not any("softmax" in name or "div" in name for name in seen)


def test_a_weighted_sum_is_exact_but_for_its_last_rounding() -> None:
    sources = [draw(5, 8, std=100.0).roll(n, 0).to(torch.bfloat16) for n in range(20)]
    weights = draw(5, 20)
    expected = torch.einsum("tn,ntd->td", weights.double(), torch.stack(sources).double())
    assert torch.equal(weighted_sum(sources, weights), expected.float().to(torch.bfloat16))
    one_hot = torch.eye(20)[7]
    assert torch.equal(weighted_sum(sources, one_hot), sources[7])


def test_heads_mix_their_own_slices() -> None:
    sources, weights = [draw(5, 6).roll(n, 0) for n in range(3)], draw(3, 5, 2)
    mixed = mix_by_head(sources, weights)
    for head, cut in enumerate((slice(0, 3), slice(3, 6))):
        expected = sum(w[:, None] * s[:, cut] for w, s in zip(weights[..., head], sources, strict=True))
        assert torch.allclose(mixed[:, cut], expected)


def test_what_is_recomputed_keeps_its_inputs_alone_and_has_the_same_gradient() -> None:
    def chain(x: Tensor) -> Tensor:
        for _ in range(10):
            x = torch.tanh(x * 2)
        return x

    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    x = draw(4, 4).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = recomputed(chain, x)
    assert all(tensor is x for tensor in kept)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    (expected,) = torch.autograd.grad(chain(x).sum(), x)
    assert torch.equal(gradient, expected)

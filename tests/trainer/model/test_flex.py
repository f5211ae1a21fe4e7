"""FlexAttention against PyTorch's plain one; its kernels on a GPU."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcount.trainer.compilation import compiled
from headcount.trainer.exact import exact_mode
from headcount.trainer.execution import Execution
from headcount.trainer.model.flex import attend_flex, blocks_of, causal_blocks

CPU = torch.device("cpu")


def inputs(heads: int, kv_heads: int, tokens: int, width: int, device: torch.device) -> list[Tensor]:
    """Query, key, value, and the gradient of the output, in float64."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, each, tokens, width) for each in (heads, kv_heads, kv_heads, heads)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(device) for shape in shapes]


def plain(query: Tensor, key: Tensor, value: Tensor, of_output: Tensor) -> list[Tensor]:
    """The output and the gradients of query, key and value."""
    leaves = [each.detach().requires_grad_() for each in (query, key, value)]
    output = F.scaled_dot_product_attention(*leaves, is_causal=True, enable_gqa=True)
    return [output.detach(), *torch.autograd.grad(output, leaves, of_output)]


@pytest.mark.filterwarnings("ignore:.*flex_attention called without torch.compile")
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (4, 1)])
def test_it_is_causal_attention_with_shared_kv_heads(heads: int, kv_heads: int) -> None:
    query, key, value, of_output = inputs(heads, kv_heads, 200, 8, CPU)
    found = attend_flex(query, key, value, blocks_of(200, CPU))
    torch.testing.assert_close(found, plain(query, key, value, of_output)[0], rtol=1e-10, atol=1e-12)


def test_it_compiles_as_a_whole() -> None:
    query, key, value, of_output = (each.float() for each in inputs(4, 2, 256, 64, CPU))
    whole = torch.compile(attend_flex, fullgraph=True, dynamic=False, backend="aot_eager")
    found = whole(query, key, value, blocks_of(256, CPU))
    torch.testing.assert_close(found, plain(query, key, value, of_output)[0])


def test_the_cpu_has_no_blocks() -> None:
    assert causal_blocks(1024, 64, CPU, torch.bfloat16) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("heads", "kv_heads", "width"), [(8, 8, 64), (8, 2, 64), (4, 2, 80), (4, 4, 128)])
@pytest.mark.parametrize("tokens", [128, 2048])
def test_the_kernels_are_right_and_give_the_same_bits_again(
    heads: int, kv_heads: int, width: int, tokens: int
) -> None:
    device = torch.device("cuda")
    *leaves, of_output = inputs(heads, kv_heads, tokens, width, device)
    wanted = plain(*(each.bfloat16().double() for each in leaves), of_output.bfloat16().double())
    given = [each.bfloat16().requires_grad_() for each in leaves]
    blocks = blocks_of(tokens, device)
    with exact_mode(Execution(device="cuda")):
        found = []
        for _ in range(3):
            output = compiled(attend_flex)(given[0], given[1], given[2], blocks)
            found.append([output, *torch.autograd.grad(output, given, of_output.bfloat16())])
    for again in found[1:]:
        assert all(torch.equal(one, other) for one, other in zip(again, found[0], strict=True))
    for one, other in zip(found[0], wanted, strict=True):
        assert (one.double() - other).square().mean().sqrt() < 5e-3 * other.square().mean().sqrt()

import math
import re

import pytest
import torch
from torch import Tensor

from headcount.kernels import route, route_by_definition, routing_weights


def draw(
    num_sources: int, heads: int, head_width: int, *shape: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    """Sources of very different scale, then a query and a key weight; all want gradients."""
    generator = torch.Generator().manual_seed(1000 * num_sources + heads)
    width = heads * head_width
    tensors = [
        torch.randn(*shape, width, dtype=torch.float64, generator=generator) * 4.0 ** (n % 3 - 1)
        for n in range(num_sources)
    ]
    query = torch.randn(width, dtype=torch.float64, generator=generator) / math.sqrt(head_width)
    key_weight = 1 + 0.3 * torch.randn(width, dtype=torch.float64, generator=generator)
    return [tensor.to(dtype).requires_grad_() for tensor in (*tensors, query, key_weight)]


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (
            2,
            [0.562349, 0.812550, 0.395632, 3.604368],
        ),  # a per-head key norm would give .042, .986, .498, 3.502
        (1, [1.450019, 0.516660, 1.033321, 2.966679]),
    ],
)
@pytest.mark.parametrize("read", [route, route_by_definition])
def test_the_key_norm_runs_over_the_full_width(read, heads, expected):
    sources = [
        torch.tensor([3.0, 0, 0, 4], dtype=torch.float64),
        torch.tensor([0.0, 1, 2, 2], dtype=torch.float64),
    ]
    query = torch.tensor([1, 2, -1, 0.5], dtype=torch.float64)
    key_weight = torch.tensor([1, 2, 1, 0.5], dtype=torch.float64)
    mixed = read(sources, query, key_weight, heads, eps=0.0)
    torch.testing.assert_close(mixed, torch.tensor(expected, dtype=torch.float64), atol=5e-7, rtol=0)


@pytest.mark.parametrize("heads", [1, 2, 3, 8])
@pytest.mark.parametrize("num_sources", [1, 2, 5])
def test_gradients_are_those_of_finite_differences(num_sources, heads):
    *sources, query, key_weight = draw(num_sources, heads, 3, 2, 2)

    def read(*tensors: Tensor) -> Tensor:
        return route(tensors[:-2], tensors[-2], tensors[-1], heads, logit_scale=0.7)

    assert torch.autograd.gradcheck(read, (*sources, query, key_weight))


@pytest.mark.parametrize(
    ("num_sources", "heads", "head_width", "shape"),
    [(1, 1, 5, (3,)), (4, 3, 7, (2, 5)), (9, 8, 2, ()), (33, 4, 40, (1, 3))],
)
def test_equals_the_definition_in_output_and_every_gradient(num_sources, heads, head_width, shape):
    tensors = draw(num_sources, heads, head_width, *shape)
    *sources, query, key_weight = tensors
    grad = torch.randn(sources[0].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    results = []
    for read in (route, route_by_definition):
        mixed = read(sources, query, key_weight, heads)
        results.append((mixed.detach(), *torch.autograd.grad(mixed, tensors, grad)))
    for ours, expected in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_low_precision_sources_are_mixed_in_float32_and_rounded_once(dtype):
    *sources, query, key_weight = draw(6, 2, 8, 4, dtype=dtype)
    mixed = route(sources, query, key_weight, 2)
    folded = (query.float() * key_weight.float()).to(dtype).double()
    exact = route_by_definition([source.double() for source in sources], folded, torch.ones_like(folded), 2)
    assert mixed.dtype == dtype
    torch.testing.assert_close(mixed, exact.to(dtype), rtol=2 * torch.finfo(dtype).eps, atol=1e-6)
    mixed.sum().backward()
    assert [tensor.grad.dtype for tensor in (*sources, query, key_weight)] == [dtype] * 8


def test_identical_per_head_weights_equal_one_head():
    """With v = (u, u) and a query split evenly, each of two heads scores half of what one head does."""
    half = [
        torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(n)) for n in range(5)
    ]
    sources = [torch.cat([u, u], dim=-1) for u in half]
    query = torch.linspace(-1, 1, 4, dtype=torch.float64).repeat(2)
    ones = torch.ones(8, dtype=torch.float64)
    torch.testing.assert_close(
        route(sources, query, ones, 2, logit_scale=2.0), route(sources, query, ones, 1), rtol=1e-12, atol=0
    )


def test_a_zero_query_reads_the_mean():
    *sources, query, key_weight = draw(7, 2, 4, 3)
    mixed = route(sources, torch.zeros_like(query), key_weight, 2)
    torch.testing.assert_close(mixed, torch.stack(sources).mean(0), rtol=1e-12, atol=1e-12)


def test_weights_of_every_head_sum_to_one_over_depth():
    *sources, query, key_weight = draw(5, 4, 2, 2, 3)
    weights = routing_weights(sources, query, key_weight, 4)
    assert weights.shape == (5, 2, 3, 4)
    torch.testing.assert_close(weights.sum(0), torch.ones(2, 3, 4, dtype=torch.float64))
    mixed = (weights.unsqueeze(-1) * torch.stack(sources).unflatten(-1, (4, 2))).sum(0).flatten(-2)
    torch.testing.assert_close(route(sources, query, key_weight, 4), mixed)


def test_only_the_gradients_asked_for_are_returned():
    *sources, query, key_weight = draw(3, 2, 4, 2)
    frozen = [sources[0].detach(), sources[1], sources[2].detach()]
    mixed = route(frozen, query.detach(), key_weight.detach(), 2)
    mixed.sum().backward()
    assert sources[1].grad is not None
    assert [tensor.grad for tensor in (sources[0], sources[2], query, key_weight)] == [None] * 4


def test_the_same_inputs_give_the_same_bits():
    *sources, query, key_weight = draw(6, 4, 16, 64, dtype=torch.float32)
    runs = []
    for _ in range(2):
        mixed = route(sources, query, key_weight, 4)
        runs.append((mixed, *torch.autograd.grad(mixed.square().sum(), [*sources, query, key_weight])))
    assert all(torch.equal(first, second) for first, second in zip(*runs, strict=True))


def test_autograd_keeps_references_to_the_sources_and_no_stack():
    saved: list[Tensor] = []
    *sources, query, key_weight = draw(12, 2, 32, 50, dtype=torch.float32)

    def keep(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        route(sources, query, key_weight, 2)
    own = {source.data_ptr() for source in sources}
    extra = sum(tensor.numel() for tensor in saved if tensor.data_ptr() not in own)
    assert own <= {tensor.data_ptr() for tensor in saved}
    assert extra <= 12 * 50 * (2 + 1) + 4 * 64, "more than the logits and the rms of each source"


def test_a_second_derivative_is_refused():
    *sources, query, key_weight = draw(2, 1, 4, 2)
    mixed = route(sources, query, key_weight, 1)
    with pytest.raises(RuntimeError, match="without create_graph"):
        torch.autograd.grad(mixed.sum(), [query], create_graph=True)


SOURCE = torch.ones(2, 6)
VECTOR = torch.ones(6)


@pytest.mark.parametrize(
    ("sources", "query", "key_weight", "heads", "message"),
    [
        ([], VECTOR, VECTOR, 1, "sources is empty"),
        (
            [SOURCE, SOURCE.half()],
            VECTOR,
            VECTOR,
            1,
            "sources[1] is float16[2, 6] on cpu but sources[0] is float32[2, 6]",
        ),
        ([SOURCE, SOURCE.to("meta")], VECTOR, VECTOR, 1, "sources[1] is float32[2, 6] on meta"),
        ([SOURCE, torch.ones(3, 6)], VECTOR, VECTOR, 1, "sources[1] is float32[3, 6]"),
        ([SOURCE.int()], VECTOR, VECTOR, 1, "sources[0] must be floating point"),
        ([SOURCE], torch.ones(2, 3), VECTOR, 2, "query must be floating point of shape [6]"),
        ([SOURCE], VECTOR, torch.ones(5), 2, "key_weight must be floating point of shape [6]"),
        ([SOURCE], VECTOR.to("meta"), VECTOR, 2, "query is on meta but the sources are on cpu"),
        ([SOURCE], VECTOR, VECTOR, 4, "heads must divide the width 6, got 4"),
        ([SOURCE], VECTOR, VECTOR, 0, "heads must divide the width 6, got 0"),
    ],
)
def test_bad_input_is_refused_by_the_argument_name(sources, query, key_weight, heads, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        route(sources, query, key_weight, heads)

import re

import pytest
import torch
from torch import Tensor

from headcount.kernels import route_by_definition, route_groups
from headcount.kernels.groups import fits

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
CASES = [(2, 3, 24, 5), (1, 2, 17, 1)] + (
    [(65, 8, 1024, 20), (33, 8, 1280, 9), (7, 4, 512, 40)] if GPU else []
)


def draw(tokens: int, groups: int, width: int, num_sources: int) -> list[Tensor]:
    """Sources, then the groups' queries and the key weight."""
    generator = torch.Generator().manual_seed(num_sources)
    sources = [
        torch.randn(1, tokens, width, generator=generator) * 2.0 ** (n % 3 - 1) for n in range(num_sources)
    ]
    queries = torch.randn(groups, width, generator=generator) / width**0.5
    key_weight = 1 + 0.3 * torch.randn(width, generator=generator)
    return [tensor.to(DEVICE).requires_grad_() for tensor in (*sources, queries, key_weight)]


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("implementation", ["reference", "fused"])
@pytest.mark.parametrize(("tokens", "groups", "width", "num_sources"), CASES)
def test_each_group_reads_with_its_own_query_over_the_full_width(
    tokens, groups, width, num_sources, implementation
):
    inputs = draw(tokens, groups, width, num_sources)
    *sources, queries, key_weight = inputs
    ours = route_groups(sources, queries, key_weight, implementation=implementation)
    grad = torch.randn(ours.shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    exact_inputs = [tensor.detach().double().requires_grad_() for tensor in inputs]
    *exact_sources, exact_queries, exact_weight = exact_inputs
    exact = torch.stack(
        [route_by_definition(exact_sources, query, exact_weight, 1) for query in exact_queries], dim=-2
    )
    assert ours.shape == (1, tokens, groups, width)
    expected = (exact, *torch.autograd.grad(exact, exact_inputs, grad.double()))
    for a, b in zip((ours, *torch.autograd.grad(ours, inputs, grad)), expected, strict=True):
        assert (a.double() - b).norm() <= 4e-6 * b.norm() + 1e-12


def test_the_operators_keep_pytorchs_contract():
    *sources, queries, _ = draw(1, 2, 16, 2)
    torch.library.opcheck(torch.ops.headcount.route_groups.default, (sources, queries, 1e-6))
    sources, queries = [source.detach() for source in sources], queries.detach()
    out, lse = torch.ops.headcount.route_groups(sources, queries, 1e-6)
    arguments = (torch.ones_like(out), sources, queries, out, lse, 1e-6)
    torch.library.opcheck(torch.ops.headcount.route_groups_backward.default, arguments)


def test_a_second_derivative_is_refused():
    *sources, queries, key_weight = draw(1, 2, 16, 2)
    reads = route_groups(sources, queries, key_weight, implementation="fused")
    (first,) = torch.autograd.grad(reads.square().sum(), [queries], create_graph=True)
    with pytest.raises(RuntimeError, match="first derivatives only"):
        torch.autograd.grad(first.sum(), [queries])


def test_groups_too_wide_for_the_kernel_are_read_one_by_one():
    assert fits(8, 1280)
    assert not fits(8, 4096)


def test_bad_queries_are_refused():
    *sources, queries, key_weight = draw(1, 2, 16, 2)
    for bad in (queries[0], queries[:, :8], queries[:0]):
        with pytest.raises(ValueError, match=re.escape("queries must be of shape [groups, d]")):
            route_groups(sources, bad, key_weight)

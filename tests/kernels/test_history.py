"""What is written to a history and read from it, and what it refuses."""

import gc
import re
import weakref

import pytest
import torch
from torch import Tensor

from headcount.kernels import DepthHistory, route, route_by_definition
from headcount.kernels.choice import choose

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, HEADS = 32, 2


@pytest.mark.parametrize("implementation", ["reference", "two_phase"])
def test_a_bad_norm_weight_is_refused(implementation):
    history = DepthHistory(*routing_parameters(1), HEADS, implementation=implementation)
    history.write(SOURCES[0])
    with pytest.raises(ValueError, match=re.escape(f"weight must be floating point of shape [{WIDTH}]")):
        history.read_normed(torch.ones(WIDTH + 1, device=DEVICE), 1e-6)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
def test_nothing_waits_for_the_garbage_collector(backward, implementation):
    """A cycle would keep a step's tensors, and in a CUDA graph's warm-up its autograd nodes, alive."""
    gc.disable()
    try:
        history = DepthHistory(*routing_parameters(1), HEADS, implementation=implementation)
        source = SOURCES[0].clone().requires_grad_()
        history.write(source)
        loss = history.finish().sum()
        if backward:
            loss.backward()
        kept = weakref.ref(source if implementation == "fused" else history.whole_model.forward)
        del history, source, loss
        assert kept() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
def test_without_gradients_nothing_is_kept(mode, implementation):
    with mode():
        history = DepthHistory(*routing_parameters(2), HEADS, implementation=implementation)
        source = torch.randn(3, WIDTH, device=DEVICE)
        history.write(source)
        torch.testing.assert_close(history.read(), source)
        history.write(source)
        torch.testing.assert_close(history.finish(), source)
    if history.whole_model is not None:
        assert history.whole_model.forward.kept == {}


SOURCES = [torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(n)).to(DEVICE) for n in range(2)]


def routing_parameters(num_sites: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(num_sites)
    queries = torch.randn(num_sites, WIDTH, device=DEVICE).requires_grad_()
    return queries, torch.ones(num_sites, WIDTH, device=DEVICE).requires_grad_()


@pytest.mark.parametrize("implementation", ["reference", "fused", "two_phase"])
def test_sources_may_lie_anywhere(implementation):
    """Columns of a wider tensor, rows that are columns, and an address that no vector load takes."""
    wide, turned = torch.randn(3, 2 * WIDTH, device=DEVICE), torch.randn(WIDTH, 3, device=DEVICE)
    shifted = torch.randn(3 * WIDTH + 1, device=DEVICE)[1:].view(3, WIDTH)
    written = [wide[:, ::2], turned.t(), shifted]
    queries, key_weights = routing_parameters(3)
    results = []
    for sources in (written, [source.contiguous().clone() for source in written]):
        leaves = [source.detach().requires_grad_() for source in sources]
        history = DepthHistory(queries, key_weights, HEADS, implementation=implementation)
        reads = []
        for source in leaves:
            history.write(source)
            reads.append(history.read())
        results.append([*reads, *torch.autograd.grad(sum(reads).t().sum(), [queries, key_weights, *leaves])])
    assert not any(source.is_contiguous() and source.data_ptr() % 16 == 0 for source in written)
    for a, b in zip(*results, strict=True):
        if implementation == "reference":  # PyTorch sums in an order that depends on strides
            torch.testing.assert_close(a, b)
        else:
            assert torch.equal(a, b)


@pytest.mark.parametrize("block_size", [1, 2, 3, 8])
def test_block_routing_reads_the_embedding_finished_blocks_and_the_sum_so_far(block_size):
    queries, key_weights = routing_parameters(6)
    outputs = [torch.randn(2, WIDTH, device=DEVICE) for _ in range(6)]
    history = DepthHistory(queries, key_weights, HEADS, block_size=block_size, implementation="reference")
    for site, output in enumerate(outputs):
        history.write(output)
        blocks = [outputs[1 : site + 1][i : i + block_size] for i in range(0, site, block_size)]
        sources = [outputs[0], *(torch.stack(block).sum(0) for block in blocks)]
        expected = route_by_definition(sources, queries[site], key_weights[site], HEADS)
        torch.testing.assert_close(history.read(), expected)


@pytest.mark.parametrize("implementation", ["reference", "two_phase"])
def test_sources_are_what_the_next_site_would_read_over(implementation):
    history = DepthHistory(*routing_parameters(3), HEADS, implementation=implementation)
    written = [torch.randn(2, 3, WIDTH, device=DEVICE) for _ in range(2)]
    assert history.sources == []
    history.write(written[0])
    history.read()
    history.write(written[1])
    assert all(torch.equal(a, b) for a, b in zip(history.sources, written, strict=True))


def test_sources_are_gone_after_the_backward_of_two_phase():
    history = DepthHistory(*routing_parameters(1), HEADS, implementation="two_phase")
    history.write(SOURCES[0])
    history.finish().sum().backward()
    with pytest.raises(RuntimeError, match="the sources are gone"):
        history.sources  # noqa: B018


@pytest.mark.parametrize("implementation", ["reference", "fused", "two_phase"])
def test_queries_may_be_a_list_of_vectors(implementation):
    queries, key_weights = routing_parameters(2)
    results = []
    for vectors in ((queries, key_weights), (list(queries.unbind(0)), list(key_weights.unbind(0)))):
        history = DepthHistory(*vectors, HEADS, implementation=implementation)
        history.write(SOURCES[0])
        history.read()
        history.write(SOURCES[1])
        results.append(torch.autograd.grad(history.finish().sum(), [queries, key_weights]))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_logits_are_scaled():
    queries, key_weights = routing_parameters(2)
    history = DepthHistory(queries, key_weights, HEADS, logit_scale=0.25)
    sources = [torch.randn(3, WIDTH, device=DEVICE) for _ in range(2)]
    for source in sources:
        history.write(source)
        mixed = history.read()
    torch.testing.assert_close(mixed, route(sources, queries[1] * 0.25, key_weights[1], HEADS))


def test_a_partial_backward_is_refused():
    history = DepthHistory(*routing_parameters(3), HEADS, implementation="two_phase")
    reads = []
    for _ in range(3):
        history.write(torch.randn(2, WIDTH, device=DEVICE))
        reads.append(history.read())
    with pytest.raises(RuntimeError, match="gradient of site 0 where it expected site 2"):
        reads[0].sum().backward()


def test_a_read_changed_in_place_is_noticed():
    history = DepthHistory(*routing_parameters(1), HEADS, implementation="two_phase")
    history.write(torch.randn(2, WIDTH, device=DEVICE))
    read = history.finish()
    loss = read.sum()
    with torch.no_grad():
        read.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_calls_out_of_turn_are_refused():
    source = torch.ones(2, WIDTH, device=DEVICE)
    history = DepthHistory(*routing_parameters(2), HEADS)
    with pytest.raises(RuntimeError, match="read out of turn: 0 sources and 0 reads"):
        history.read()
    history.write(source)
    with pytest.raises(RuntimeError, match="write out of turn: 1 sources and 0 reads"):
        history.write(source)
    with pytest.raises(RuntimeError, match="finish after 1 sources, but the model has 2 sites"):
        history.finish()
    history.read()
    history.write(source)
    history.finish()
    with pytest.raises(RuntimeError, match="write out of turn: 2 sources and 2 reads of 2 sites"):
        history.write(source)


QUERIES = torch.ones(2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"queries": torch.ones(6)},
            "queries must be floating point, one vector [d] for each site, got shape [6]",
        ),
        ({"queries": []}, "queries must be floating point, one vector [d] for each site, got shape []"),
        (
            {"key_weights": torch.ones(3, 6)},
            "key_weights is of shape [3, 6] but queries of [2, 6]",
        ),
        ({"heads": 4}, "heads must divide the width 6, got 4"),
        ({"block_size": 0}, "block_size must be at least 1 sublayer, got 0"),
        ({"implementation": "two-phase"}, "implementation 'two-phase' is unknown: did you mean 'two_phase'?"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DepthHistory(**{"queries": QUERIES, "key_weights": QUERIES, "heads": 2, **arguments})


def test_bad_sources_are_refused():
    with pytest.raises(
        ValueError, match=re.escape("source must be floating point of shape [..., 6] like queries")
    ):
        DepthHistory(QUERIES, QUERIES, 2).write(torch.ones(3, 5))
    with pytest.raises(ValueError, match="queries is on cpu but the source is on meta"):
        DepthHistory(QUERIES, QUERIES, 2).write(torch.ones(3, 6, device="meta"))
    history = DepthHistory(QUERIES, QUERIES, 2)
    history.write(torch.ones(3, 6))
    history.read()
    with pytest.raises(
        ValueError, match=re.escape("source is torch.float16 [3, 6] on cpu, but the first was")
    ):
        history.write(torch.ones(3, 6).half())


def test_bad_products_are_refused_by_name():
    history = DepthHistory(*routing_parameters(2), HEADS, implementation="two_phase")
    x, weight = torch.ones(3, 8, device=DEVICE), torch.ones(WIDTH, 8, device=DEVICE)
    history.write(SOURCES[0])
    with pytest.raises(RuntimeError, match="write out of turn: 1 sources and 0 reads"):
        history.write_product(x, weight)
    history.read()
    for bad in ((x[:2], weight), (x, weight[:8]), (x, weight.half()), (x.half(), weight)):
        with pytest.raises(
            ValueError, match=r"(x|weight) is torch.float(16|32) \[.*, expected torch.float32"
        ):
            history.write_product(*bad)


def test_the_choice_is_told_with_its_reason(monkeypatch):
    source = torch.ones(2, 6)
    assert choose("auto", source, one_site=False).implementation == "reference"
    with pytest.raises(ValueError, match="'two_phase' cannot run: two_phase serves a whole model"):
        choose("two_phase", source.to(DEVICE), one_site=True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert choose("auto", source, one_site=False).reason == "the kernels need CUDA and the sources are on cpu"
    with pytest.raises(
        ValueError, match="'fused' cannot run: the kernels need CUDA and the sources are on cpu"
    ):
        choose("fused", source, one_site=False)


def test_two_phase_tells_its_launch_parameters():
    history = DepthHistory(*routing_parameters(2), HEADS, implementation="two_phase")
    history.write(torch.ones(2, WIDTH, device=DEVICE))
    assert history.choice.launch["block_sites"] == 8

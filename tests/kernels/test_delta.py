"""The delta form in every implementation, against float64."""

import math
import re

import pytest
import torch
from torch import Tensor

from headcount.kernels import DeltaHistory, route_by_definition
from headcount.kernels.delta_history import choose_for_delta
from headcount.kernels.forward import partition_delta

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
DTYPE = BF16 if GPU else FP32  # float32 goes site by site on a GPU

# tokens, width, heads, sites, block_size, dtype
CASES = [
    (3, 40, 2, 10, 1, FP32),  # two blocks of five sites; two tiles a head
    (2, 24, 3, 5, 2, FP32),
    (1, 32, 1, 11, 9, FP16),  # more sites to a source than a block has
]
GPU_CASES = [
    (130, 1024, 8, 24, 1, BF16),
    (65, 1280, 8, 36, 4, BF16),
    (37, 4096, 8, 65, 8, BF16),
    (16, 1024, 1, 10, 4, BF16),
    (16, 2048, 1, 10, 4, BF16),  # heads too wide for a tile: site by site
    (16, 512, 4, 20, 2, FP32),  # site by site, for its products
]


@pytest.fixture(params=CASES + GPU_CASES if GPU else CASES, ids=str)
def case(request):
    return Drawn(*request.param)


class Drawn:
    """Inputs of one pass: what is written, the sites' parameters, and the gradients of reads and result."""

    def __init__(
        self, tokens: int, width: int, heads: int, sites: int, block_size: int, dtype: torch.dtype
    ) -> None:
        generator = torch.Generator().manual_seed(width + sites)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(DEVICE)

        self.heads, self.block_size, self.dtype = heads, block_size, dtype
        self.written = [(2.0 ** (n % 3 - 1) * normal(tokens, width)).to(dtype) for n in range(sites + 1)]
        self.queries = normal(sites, width) / math.sqrt(width / heads)
        self.key_weights = 1 + 0.3 * normal(sites, width)
        self.nulls = normal(sites, width).to(dtype).float()
        self.gates = normal(sites, 1)
        self.gradients = [normal(tokens, width).to(dtype) for _ in range(sites + 1)]

    def inputs(self, dtype: torch.dtype | None = None) -> list[Tensor]:
        """Leaves: the parameters by sites, then what is written; in `dtype` where it is given."""
        parameters = [self.queries, self.key_weights, self.nulls, self.gates]
        tensors = [*parameters, *self.written]
        return [tensor.to(dtype or tensor.dtype, copy=True).requires_grad_() for tensor in tensors]


def run(case: Drawn, implementation: str, unused: int = 0) -> tuple[list[Tensor], list[Tensor]]:
    """Reads and result; gradients of the inputs, the first reads `unused`."""
    queries, key_weights, nulls, gates, *written = inputs = case.inputs()
    history = DeltaHistory(
        queries,
        key_weights,
        nulls,
        gates,
        case.heads,
        block_size=case.block_size,
        implementation=implementation,
    )
    history.write(written[0])
    outputs = []
    for output in written[1:]:
        outputs.append(history.read())
        history.write(output)
    outputs.append(history.finish())
    used = outputs[unused:], case.gradients[unused:]
    return outputs, list(torch.autograd.grad(used[0], inputs, used[1]))


def run_exactly(case: Drawn) -> tuple[list[Tensor], list[Tensor]]:
    """The equations in float64, with the folded queries rounded as the kernels round them."""
    queries, key_weights, nulls, gates, *written = inputs = case.inputs(torch.float64)
    folded = queries * key_weights
    folded = folded + ((case.queries * case.key_weights).to(case.dtype) - folded).detach()
    ones = torch.ones_like(queries[0])
    outputs = []
    for site in range(len(queries)):
        size = case.block_size
        blocks = [sum(written[i : i + size]) for i in range(1, site + 1, size) if i + size <= site + 1]
        sources = [nulls[site].expand_as(written[0]), written[0], *blocks]
        mixed = route_by_definition(sources, folded[site], ones, case.heads)
        outputs.append(sum(written[: site + 1]) + gates[site] * mixed)
    outputs.append(sum(written))
    gradients = [gradient.double() for gradient in case.gradients]
    return outputs, list(torch.autograd.grad(outputs, inputs, gradients))


def error(ours: list[Tensor], exact: list[Tensor]) -> float:
    """RMS of the difference over the RMS of the exact value, all tensors together."""
    difference = sum(
        (a.detach().double() - b).square().sum().item() for a, b in zip(ours, exact, strict=True)
    )
    return math.sqrt(difference / sum(b.square().sum().item() for b in exact))


def errors(case: Drawn, implementation: str, exact: tuple[list[Tensor], list[Tensor]]) -> dict[str, float]:
    outputs, gradients = run(case, implementation)
    parts = {
        "dq": slice(0, 1),
        "dg": slice(1, 2),
        "null": slice(2, 3),
        "gate": slice(3, 4),
        "dv": slice(4, None),
    }
    found = {name: error(gradients[part], exact[1][part]) for name, part in parts.items()}
    return {"out": error(outputs, exact[0]), **found}


@pytest.mark.usefixtures("poisoned")
def test_every_output_and_gradient_is_that_of_float64(case):
    """In 16 bits the running sum is rounded at every site, so errors grow with the sites, in all alike."""
    exact = run_exactly(case)
    usual, ours = errors(case, "reference", exact), errors(case, "auto" if GPU else "two_phase", exact)
    unit = {BF16: 2e-3, FP16: 2.5e-4, FP32: 1e-6}[case.dtype]
    assert max(usual.values()) < 2 * unit * math.sqrt(len(case.written))
    assert not {
        name: (ours[name], usual[name]) for name in ours if not ours[name] <= 1.5 * usual[name] + unit
    }


@pytest.mark.usefixtures("poisoned")
def test_a_read_that_nothing_uses_has_no_gradient():
    case = Drawn(2, 32, 2, 5, 2, DTYPE)
    _, gradients = run(case, "two_phase", unused=2)
    for gradient in case.gradients[:2]:
        gradient.zero_()
    _, expected = run(case, "two_phase")
    assert all(torch.equal(a, b) for a, b in zip(gradients, expected, strict=True))


def test_the_same_inputs_give_the_same_bits():
    case = Drawn(300, 512, 4, 20, 4, DTYPE) if GPU else Drawn(3, 32, 2, 5, 2, DTYPE)
    (outputs, gradients), again = run(case, "two_phase"), run(case, "two_phase")
    assert all(torch.equal(a, b) for a, b in zip(outputs + gradients, again[0] + again[1], strict=True))


def test_with_gates_of_zero_a_site_reads_the_sum_and_only_gates_learn():
    case = Drawn(2, 32, 2, 5, 1, DTYPE)
    case.gates.zero_()
    outputs, gradients = run(case, "two_phase")
    total = case.written[0]
    for output, written in zip(outputs, case.written[1:], strict=False):
        assert torch.equal(output, total)
        total = total + written
    assert torch.equal(outputs[-1], total)
    assert [bool(gradient.any()) for gradient in gradients[:4]] == [False, False, False, True]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_is_kept(mode):
    case = Drawn(2, 32, 2, 2, 1, DTYPE)
    with mode():
        history = DeltaHistory(
            case.queries, case.key_weights, case.nulls, case.gates, 2, implementation="two_phase"
        )
        history.write(case.written[0])
        history.read()
    assert history.whole_model is not None
    assert history.whole_model.forward.kept == {}
    assert history.choice is not None
    assert history.choice.launch["block_sites"] == 8


def test_sites_between_two_sources_are_cut_evenly():
    assert [tuple(b) for b in partition_delta(5, 2, 8)] == [(0, 2, 1, 1), (2, 2, 2, 2), (4, 1, 3, 3)]
    assert [tuple(b) for b in partition_delta(11, 9, 8)] == [(0, 5, 1, 1), (5, 4, 1, 1), (9, 2, 2, 2)]
    assert [tuple(b) for b in partition_delta(10, 1, 8)] == [(0, 5, 0, 5), (5, 5, 6, 10)]


def test_heads_too_wide_for_a_tile_are_read_site_by_site():
    source = torch.ones(2, 4096, device=DEVICE, dtype=BF16)
    assert choose_for_delta("auto", source, heads=2).implementation == ("fused" if GPU else "reference")
    assert choose_for_delta("two_phase", source, heads=4).implementation == "two_phase"
    with pytest.raises(ValueError, match=r"'two_phase' cannot run: .* each site is read by itself"):
        choose_for_delta("two_phase", source, heads=2)


def test_bad_arguments_are_refused_by_name():
    vectors = torch.ones(3, 6)
    gates = torch.zeros(3, 1)
    for bad, message in [
        ({"nulls": torch.ones(2, 6)}, "nulls is of shape [2, 6] but queries of [3, 6]"),
        ({"gates": torch.zeros(2, 1)}, "gates must be one of shape [1] for each of 3 sites, got [[1], [1]]"),
        ({"block_size": 0}, "block_size must be at least 1 sublayer, got 0"),
    ]:
        usual = {"queries": vectors, "key_weights": vectors, "nulls": vectors, "gates": gates, "heads": 2}
        with pytest.raises(ValueError, match=re.escape(message)):
            DeltaHistory(**{**usual, **bad})


def test_calls_out_of_turn_are_refused():
    case = Drawn(2, 32, 2, 1, 1, FP32)
    history = DeltaHistory(case.queries, case.key_weights, case.nulls, case.gates, 2)
    with pytest.raises(RuntimeError, match="read out of turn: 0 sources and 0 reads"):
        history.read()
    history.write(case.written[0])
    with pytest.raises(RuntimeError, match="finish after 1 sources, but the model has 1 sites"):
        history.finish()
    history.read()
    history.write(case.written[1])
    with pytest.raises(RuntimeError, match="read out of turn: 2 sources and 1 reads"):
        history.read()
    with pytest.raises(RuntimeError, match="write out of turn: 2 sources and 1 reads of 1 sites"):
        history.write(case.written[1])

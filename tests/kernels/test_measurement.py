import pytest
import torch

from headcount.kernels.bench import SHAPES, implementations
from headcount.kernels.byte_model import vectors_moved
from headcount.kernels.measurement import Case, Shape, by_definition, relative_error

GPU = torch.cuda.is_available()
DEVICE, DTYPE, ALLOWED = ("cuda", torch.bfloat16, 3e-2) if GPU else ("cpu", torch.float32, 1e-6)


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("100m", 8.24), ("350m", 10.51), ("1b", 12.07), ("8b", 38.6)]
)
def test_bytes_of_two_phase(name, gigabytes):
    """By the model of docs/kernels.md; at 350M by hand: partial results 130 + 40 vectors, merges 54 + 5 · 42,
    finalise 81 + 4 · 56 + 49 + 5 · 5, deferred 218 + 174 + 48.
    """
    shape = SHAPES[name]
    vectors = vectors_moved(shape, "two_phase")
    assert vectors * shape.tokens * shape.width * 2 / 1e9 == pytest.approx(gigabytes, rel=1e-3)


def test_bytes_of_a_tiny_model_count_every_vector():
    """Two sites: reads 1 and 2; the last source's gradient is read by one site only, the first's by both."""
    shape = Shape(tokens=1, width=1, sites=2, heads=1)
    forward = (1 + 1) + (2 + 1)
    finalise = (1 + 2 + 1 + 1) + (1 + 1 + 1 + 1)  # source, site gradients, out, result
    deferred = 2 + 1  # site 0's query has no gradient
    assert vectors_moved(shape, "two_phase") == forward + finalise + deferred
    assert vectors_moved(shape, "fused") == forward + (1 + 2 + 1 + 2) + 2 * 2 + 3 * 1


def test_the_published_case_of_the_delta_form_is_65_sites_over_at_most_9_sources():
    reads = SHAPES["8b-delta"].reads()
    assert (len(reads), reads[0], reads[-1]) == (65, 1, 9)


def test_bytes_of_the_delta_form_count_every_vector():
    """Three sites, the first two in one block over the embedding, the last over one change more."""
    forward = (1 + 2) + (2 + 1) + 3 * (2 + 1)  # partial results; the sum, the mixture and what results
    backward = 3 * 2 + (1 * 3 + 2) + (2 * 2 + 1) + 2 * 3  # gates, deferred by block, finalise
    assert vectors_moved(Shape(1, 1, sites=3, heads=1, block_size=2), "two_phase") == forward + backward


@pytest.mark.filterwarnings("ignore")  # torch.compile's imports warn
@pytest.mark.parametrize("block_size", [None, 2])
@pytest.mark.parametrize("name", ["torch.compile", "torch.compile, buffer", "fused", "two_phase"])
def test_what_the_benchmark_times_is_depth_routing(name, block_size):
    shape = Shape(tokens=3, width=16, sites=5, heads=2, block_size=block_size)
    case = Case.random(shape, DTYPE, DEVICE)
    with torch.compiler.set_stance("force_eager"):
        outputs, gradients = implementations(shape, with_peers=True)[name].both(case)
    exact_outputs, exact = by_definition().both(case.first_tokens(3))
    assert relative_error(outputs, exact_outputs) < ALLOWED
    for ours, expected in zip(gradients, exact, strict=True):
        assert relative_error([ours], [expected]) < ALLOWED


def test_an_error_is_relative_to_the_exact_values_together():
    ours = [torch.tensor([3.0, 0.0]), torch.tensor([0.0])]
    assert relative_error(ours, [torch.tensor([0.0, 0.0]), torch.tensor([4.0])]) == 1.25

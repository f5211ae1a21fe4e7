import pytest

from headcount.kernels.bench import SHAPES
from headcount.kernels.measurement import Shape, vectors_moved


@pytest.mark.parametrize(
    ("name", "gigabytes"), [("100m", 8.29), ("350m", 10.80), ("1b", 12.69), ("8b", 40.6)]
)
def test_bytes_of_two_phase_are_those_of_the_published_byte_model(name, gigabytes):
    """The model of docs/kernels.md, worked out there by hand for these shapes."""
    shape = SHAPES[name]
    vectors = vectors_moved(shape, "two_phase")
    assert vectors * shape.tokens * shape.width * 2 / 1e9 == pytest.approx(gigabytes, rel=5e-3)


def test_bytes_of_a_tiny_model_count_every_vector():
    """Two sites: reads 1 and 2; the last source's gradient is read by one site only, the first's by both."""
    shape = Shape(tokens=1, width=1, sites=2, heads=1)
    forward = (1 + 1) + (2 + 1)
    finalise = (1 + 2 + 1 + 1) + (1 + 1 + 1 + 1)  # source, site gradients, out, result
    deferred = 2 + 2
    assert vectors_moved(shape, "two_phase") == forward + finalise + deferred
    assert vectors_moved(shape, "fused") == forward + (1 + 2 + 1 + 2) + 2 * 2 + 3 * 1


def test_a_block_routed_site_reads_from_two_sources_to_all():
    assert Shape(1, 1, sites=4, heads=1, blocks=5).reads() == [2, 3, 4, 5]
    assert SHAPES["8b-delta"].reads()[-1] <= 10
    assert len(SHAPES["8b-delta"].reads()) == 65

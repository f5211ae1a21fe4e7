"""The measures against their definitions written out, and against closed forms."""

import math

import numpy as np
import pytest
import torch

from headcount.trainer.probe.measures import (
    collinearity,
    correlation,
    cross_head_correlation,
    head_deviation,
    keys,
    slice_logits,
    width_disagreement,
)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(0))
    return e / e.sum(0)


def test_disagreement_is_the_mean_kl_of_the_slices_to_the_whole() -> None:
    sources, query, weight = list(drawn(5, 3, 8)), drawn(8, seed=1), drawn(8, seed=2)
    values = np.stack([source.numpy() for source in sources])
    normed = values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-6) * weight.numpy()
    shared = softmax((normed * query.numpy()).sum(-1))
    expected = []
    for s in range(4):
        own = softmax((normed * query.numpy())[..., 2 * s : 2 * s + 2].sum(-1))
        expected.append((own * np.log(own / shared)).sum(0))
    logits = slice_logits(keys(sources, weight, 1e-6), query, 4)
    assert float(width_disagreement(logits)) == pytest.approx(np.mean(expected), rel=1e-12)


def test_one_slice_and_a_query_of_zero_agree_with_the_whole() -> None:
    logits = drawn(6, 10, 1)
    assert float(width_disagreement(logits)) == pytest.approx(0, abs=1e-15)
    assert float(width_disagreement(torch.zeros(6, 10, 4))) == 0


@pytest.mark.parametrize(("sources", "slices"), [(4, 2), (16, 4), (16, 8)])
def test_short_random_queries_disagree_by_their_closed_form(sources: int, slices: int) -> None:
    """For z_s ~ N(0, σ²) and σ → 0 the mean KL is (1 − 1/N)(S − 1) σ² / 2, with σ² = |q|² / S."""
    norm = 1e-2
    logits = drawn(sources, 20_000, slices) * norm / math.sqrt(slices)
    closed = (1 - 1 / sources) * (slices - 1) * norm**2 / slices / 2
    assert float(width_disagreement(logits)) == pytest.approx(closed, rel=0.02)


def test_collinearity_is_the_mean_cosine_of_all_pairs() -> None:
    sources = [*drawn(4, 3, 8)]
    cosines = [
        torch.nn.functional.cosine_similarity(sources[i], sources[j], dim=-1).mean()
        for i in range(4)
        for j in range(i)
    ]
    assert float(collinearity(sources)) == pytest.approx(float(sum(cosines)) / 6, rel=1e-12)
    assert float(collinearity([sources[0], 3 * sources[0]])) == pytest.approx(1)
    assert float(collinearity([sources[0], torch.zeros(3, 8)])) == 0


def test_correlations() -> None:
    a, b = drawn(20), drawn(20, seed=1)
    assert correlation(a, b) == pytest.approx(np.corrcoef(a.numpy(), b.numpy())[0, 1], rel=1e-12)
    assert correlation(a, torch.ones(20)) is None
    maps = head_deviation(drawn(50, 3))
    assert maps.sum(-1).abs().max() < 1e-12
    pairs = [np.corrcoef(maps[:, i].numpy(), maps[:, j].numpy())[0, 1] for i, j in ((0, 1), (0, 2), (1, 2))]
    assert cross_head_correlation(maps) == pytest.approx(np.mean(pairs), rel=1e-12)
    assert cross_head_correlation(head_deviation(drawn(50, 2))) == pytest.approx(-1)
    assert cross_head_correlation(head_deviation(drawn(50, 1))) is None

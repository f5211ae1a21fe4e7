import math

import numpy as np
import pytest
import torch
from residual_variants import VARIANTS, build, job, perturb

from headcount.trainer.evaluation import head_reads, mean_loss, routing
from headcount.trainer.residuals.registry import stream_diagnostics

ROUTED = {n: v for n, v in VARIANTS.items() if "weights" in stream_diagnostics(v["residual"])}


def windows(count: int = 2) -> torch.Tensor:
    return torch.randint(0, 19, (count, 17), generator=torch.Generator().manual_seed(0))


def test_uniform_weights_have_the_entropy_of_their_number() -> None:
    """With queries of zero, site s of `mhar` weighs its s + 1 sources alike, the head's read among them."""
    told = routing(build(job({"residual": "mhar", "routing_heads": 4})), windows(), 7)
    assert told is not None
    assert told.step == 7
    assert told.entropy == pytest.approx([math.log(n) for n in (1, 2, 3, 4, 5)], abs=1e-12)


def test_the_top_source_is_the_one_that_weighs_most() -> None:
    model = build(job({"residual": "mhar", "routing_heads": 1}))
    with torch.no_grad():
        for site, query in enumerate(model.stream.queries):
            model.stream.key_weights[site].fill_(0.0)
            model.stream.key_weights[site][0] = 1.0
            query[0] = 40.0
        model.embedding[:, 0] = 50.0  # the embedding's normed first value is the largest of all sources
    told = routing(model, windows(), 0)
    assert told is not None
    assert told.top_source == (0,) * 5
    assert max(told.entropy) < 0.2


@pytest.mark.parametrize("variant", ROUTED.values(), ids=ROUTED.keys())
def test_every_routed_read_is_told_and_nothing_of_the_model_changes(variant: dict[str, object]) -> None:
    model = perturb(build(job(variant)))
    tokens = windows()[:, :-1]
    with torch.no_grad():
        before = model(tokens)
        told = routing(model, windows(), 0)
        after = model(tokens)
    assert told is not None
    has_head_read = variant["residual"] != "delta"
    assert len(told.entropy) == len(told.top_source) == 4 + has_head_read
    assert all(entropy >= 0 for entropy in told.entropy)
    assert torch.equal(before, after)
    assert not {"attend", "read", "finish"} & model.stream.__dict__.keys()


@pytest.mark.parametrize("variant", ROUTED.values(), ids=ROUTED.keys())
def test_heads_told_apart_are_what_sites_are_the_mean_of(variant: dict[str, object]) -> None:
    model = perturb(build(job(variant)))
    told, reads = routing(model, windows(), 0), head_reads(model, windows())
    assert told is not None
    assert reads is not None
    means = [np.mean(heads) for heads in reads.entropy]
    assert means == pytest.approx(told.entropy)
    for weights, top in zip(map(np.array, reads.weights), told.top_source, strict=True):
        assert weights.sum(axis=1) == pytest.approx(np.ones(len(weights)))
        assert weights.mean(axis=0).argmax() == top


@pytest.mark.parametrize("residual", ["additive", "hyper_connections", "value_residual"])
def test_a_stream_that_does_not_route_by_weights_tells_nothing(residual: str) -> None:
    model = build(job({"residual": residual}))
    assert routing(model, windows(), 0) is None
    assert head_reads(model, windows()) is None


def test_the_mean_is_of_all_windows() -> None:
    assert mean_loss((1.0, 2.0, 6.0)) == 3.0

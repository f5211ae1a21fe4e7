"""How the routed streams relate to each other and to their controls."""

import math

import pytest
import torch
from planned import planned
from residual_reference import SITES, embedding, reads_of, stream_of
from residual_variants import build, job, perturb, tokens

from headcount.trainer.residuals.mhar import Stream


def copied(stream: Stream, other: Stream) -> Stream:
    stream.load_state_dict(other.state_dict())
    return stream


@pytest.mark.parametrize("heads", [2, 4])
def test_heads_with_equal_weights_are_one_head_at_a_matched_temperature(heads: int) -> None:
    """Slices that are copies of each other score alike; one head sums their logits, which 1 / H undoes."""
    source = embedding().view(-1, heads, 16 // heads)[:, :1].repeat(1, heads, 1).flatten(1)
    sources = [source.roll(n, 0) for n in range(4)]
    many = stream_of(residual="mhar", routing_heads=heads)
    one = copied(stream_of(residual="mhar", logit_scale=1 / heads), many)
    with torch.no_grad():
        for vectors in (many.queries, many.key_weights, one.queries, one.key_weights):
            vectors[3].copy_(vectors[3][: 16 // heads].repeat(heads))
    torch.testing.assert_close(many.route(sources, 3), one.route(sources, 3), rtol=0, atol=1e-14)
    plain = copied(stream_of(residual="mhar"), one)
    assert not torch.allclose(plain.route(sources, 3), one.route(sources, 3))


def test_a_learned_scale_starts_as_the_fixed_one() -> None:
    fixed = stream_of(residual="mhar", routing_heads=4, logit_scale=0.3)
    learned = stream_of(residual="mhar", routing_heads=4, logit_scale=0.3, logit_scale_form="per_head")
    with torch.no_grad():
        for name, parameter in learned.named_parameters():
            parameter.copy_(fixed.get_parameter(name)) if "scales" not in name else parameter.fill_(0.3)
    for read, expected in zip(reads_of(learned), reads_of(fixed), strict=True):
        torch.testing.assert_close(read, expected, rtol=0, atol=1e-14)


def test_blocks_of_one_sublayer_are_the_full_form_and_one_block_sets_the_embedding_apart() -> None:
    sizes = {}
    for block_size in (1, 2, SITES):
        stream = stream_of(residual="mhar", block_size=block_size)
        state = stream.begin(embedding())
        for site in range(SITES):
            stream.read(state, site)
            stream.write(state, site, embedding() * 10**site)
        sizes[block_size] = [round(float(source[0, 0] / embedding()[0, 0])) for source in state.sources]
    assert sizes == {
        1: [1, 1, 10, 100, 1000, 10000, 100000],
        2: [1, 11, 1100, 110000],
        SITES: [1, 111111],
    }


def test_one_kv_group_and_one_head_make_mhar_hw_the_same_as_mhar() -> None:
    models = [
        build(job({"residual": residual, "query_init": "normal"}, kv_heads=1))
        for residual in ("mhar", "mhar_hw")
    ]
    with torch.no_grad():
        for name, parameter in models[1].named_parameters():
            parameter.copy_(models[0].get_parameter(name).view_as(parameter))
    inputs = tokens(job({}))
    torch.testing.assert_close(models[0](inputs), models[1](inputs), rtol=0, atol=1e-12)


def test_at_its_start_delta_learns_by_its_gates_first() -> None:
    model = build(job({"residual": "delta", "routing_heads": 4}))
    model.token_losses(tokens(job({}), 2, 17)).mean().backward()
    stream = model.stream
    assert all(gate.grad is not None and gate.grad.any() for gate in stream.gates)
    for vectors in (stream.queries, stream.nulls, stream.key_weights):
        assert not any(vector.grad.any() for vector in vectors)


@pytest.mark.parametrize("residual", ["mhar", "mhar_hw", "delta", "dar", "wav", "haares"])
def test_every_stream_with_a_softmax_over_depth_takes_the_temperature(residual: str) -> None:
    variant = {"residual": residual, "block_size": 2} if residual != "mhar_hw" else {"residual": residual}
    logits = [perturb(build(job(variant, logit_scale=scale)))(tokens(job(variant))) for scale in (1.0, 0.25)]
    assert not torch.allclose(*logits)
    learned = build(job(variant, logit_scale_form="per_head", logit_scale=0.25))
    scales = [p for n, p in learned.named_parameters() if "logit_scales" in n]
    assert scales
    assert all(torch.equal(p, torch.full_like(p, 0.25)) for p in scales)


MATCHED = """
name: matched-temperature
job: {model: {residual: mhar, routing_heads: 8}}
axes:
  train.peak_lr: [0.001, 0.003]
control: {model.routing_heads: 1, model.logit_scale: 0.35355}
"""


def test_one_head_at_matched_temperature_is_one_line_of_a_sweep() -> None:
    result = planned(MATCHED)
    pairs = {job.config.train.peak_lr: job for job in result.jobs if job.control_id}
    controls = {job.id: job.config.model for job in result.jobs if not job.control_id}
    assert pairs.keys() == {0.001, 0.003}
    for treatment in pairs.values():
        control = controls[str(treatment.control_id)]
        assert (treatment.config.model.routing_heads, treatment.config.model.logit_scale) == (8, 1.0)
        assert (control.residual, control.routing_heads) == ("mhar", 1)
        assert control.logit_scale == pytest.approx(1 / math.sqrt(8), abs=1e-5)

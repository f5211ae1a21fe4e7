"""The streams that route over depth, against their equations."""

from typing import Any

import pytest
import torch
from residual_reference import SITES, TOKENS, WIDTH, check, embedding, rms_norm, stream_of, sublayers
from residual_variants import build, job, perturb, tokens
from torch import Tensor

from headcount.trainer.residuals.details import DetailedBlocks, split_sign


def routed(
    sources: list[Tensor],
    query: Tensor,
    key_weight: Tensor,
    scales: Any = (1.0,),
    keys: Any = None,
    bias: Any = None,
) -> Tensor:
    """Mixed slice by slice, one for each of `scales`; by the keys of other sources where they are given."""
    out = torch.empty_like(sources[0])
    for scale, cut in zip(scales, torch.arange(WIDTH).chunk(len(scales)), strict=True):
        logits = torch.stack(
            [scale * (rms_norm(key, key_weight)[:, cut] * query[cut]).sum(-1) for key in keys or sources]
        )
        weights = torch.softmax(logits if bias is None else logits + torch.stack(bias)[:, None], dim=0)
        out[:, cut] = sum(w[:, None] * source[:, cut] for w, source in zip(weights, sources, strict=True))
    return out


def in_blocks(outputs: list[Tensor], size: int) -> list[list[Tensor]]:
    """The outputs so far in their blocks, the running one last."""
    return [outputs[start : start + size] for start in range(0, len(outputs), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6])
@pytest.mark.parametrize(
    ("heads", "form", "scale"), [(1, "fixed", 1.0), (4, "fixed", 0.3), (2, "per_head", 2.0)]
)
def test_mhar(size: int, heads: int, form: str, scale: float) -> None:
    stream = stream_of(
        residual="mhar", block_size=size, routing_heads=heads, logit_scale=scale, logit_scale_form=form
    )
    outputs: list[Tensor] = []
    expected = []
    for site, sublayer in enumerate([*sublayers(), lambda x: x]):
        sources = [embedding(), *(sum(block) for block in in_blocks(outputs, size))]
        scales = stream.logit_scales[site] if form == "per_head" else [scale] * heads
        expected.append(routed(sources, stream.queries[site], stream.key_weights[site], scales))
        outputs.append(sublayer(expected[-1]))
    check(stream, expected)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_delta(size: int) -> None:
    stream = stream_of(residual="delta", block_size=size, routing_heads=2, logit_scale=0.5)
    outputs: list[Tensor] = []
    expected = []
    for site, sublayer in enumerate(sublayers()):
        total = embedding() + sum(outputs)
        deltas = [sum(block) for block in in_blocks(outputs, size) if len(block) == size]
        sources = [stream.nulls[site].expand(TOKENS, -1), embedding(), *deltas]
        mixed = routed(sources, stream.queries[site], stream.key_weights[site], [0.5, 0.5])
        expected.append(total + stream.gates[site] * mixed)
        outputs.append(sublayer(expected[-1]))
    check(stream, [*expected, embedding() + sum(outputs)])


def test_the_changes_of_delta_add_up_to_the_state() -> None:
    """One p_n − p_{n−1} for each block; with the released code's alternating sums they would not."""
    stream = stream_of(residual="delta", block_size=2)
    state = stream.begin(embedding()[None])
    for site, sublayer in enumerate(sublayers()):
        _, *changes = state.sources_of(site)
        assert len(changes) == 1 + site // 2
        if site % 2 == 0:
            torch.testing.assert_close(sum(changes), state.total, rtol=0, atol=1e-13)
        stream.write(state, site, sublayer(stream.read(state, site)))


def details(outputs: list[Tensor], size: int, kinds: tuple[str, ...]) -> list[Tensor]:
    """The sources that the outputs of one block leave."""
    total = sum(outputs)
    found = [total]
    for kind in kinds:
        signs = {
            "phase": [1 if n % 2 == 0 else -1 for n in range(len(outputs))],
            "split": [1 if n < size // 2 else -1 for n in range(len(outputs))],
        }[kind]
        detail = sum(sign * output for sign, output in zip(signs, outputs, strict=True))
        found.append(rms_norm(detail) * (total.square().mean(-1, keepdim=True) + 1e-6).sqrt())
    return found


@pytest.mark.parametrize(("residual", "kinds"), [("haares", ("split",)), ("wav", ("phase", "split"))])
@pytest.mark.parametrize("size", [2, 4])
def test_details(residual: str, kinds: tuple[str, ...], size: int) -> None:
    stream = stream_of(residual=residual, block_size=size, routing_heads=2, logit_scale=0.7)
    outputs: list[Tensor] = []
    expected = []
    for site, sublayer in enumerate([*sublayers(), lambda x: x]):
        blocks = [details(block, size, kinds) for block in in_blocks(outputs, size)]
        sources = [embedding(), *(source for block in blocks for source in block)]
        bias = None
        if residual == "wav":
            none = torch.zeros((), dtype=torch.float64)
            bias = [none, *(b for _ in blocks for b in (none, *stream.biases[site]))]
        query, key_weight = stream.queries[site], stream.key_weights[site]
        expected.append(routed(sources, query, key_weight, [0.7, 0.7], bias=bias))
        outputs.append(sublayer(expected[-1]))
    check(stream, expected)


def test_no_gradient_passes_through_the_rescaling_of_a_detail() -> None:
    first, second = (torch.randn(3, 8, requires_grad=True) for _ in range(2))
    blocks = DetailedBlocks(2, (split_sign(2),), 0.0, [torch.zeros(3, 8)])
    blocks.add(0, first)
    blocks.add(1, second)
    _, total, detail = blocks.sources()
    assert torch.allclose(detail.square().mean(-1), total.square().mean(-1))
    factor = (detail / (first - second)).detach()
    upstream = torch.randn(3, 8)
    gradients = torch.autograd.grad(detail, (first, second), upstream)
    assert torch.allclose(gradients[0], factor * upstream)
    assert torch.allclose(gradients[1], -factor * upstream)


def test_dar() -> None:
    size = 3
    stream = stream_of(residual="dar", block_size=size, logit_scale=0.5)
    histories = [[embedding()], [embedding()]]
    partial: list[Any] = [None, None]
    expected = []
    for site, sublayer in enumerate([*sublayers(), lambda x: x]):
        read = stream.sites[site]
        sources = [h if p is None else [*h, p] for h, p in zip(histories, partial, strict=True)]
        parts = [
            routed(sources[s], read.queries[s], read.key_weight, [0.5], keys=sources[1 - s]) for s in (0, 1)
        ]
        expected.append(read.combination[0] * parts[0] + read.combination[1] * parts[1])
        if site == SITES:
            break
        y, b, r = sublayer(expected[-1]), stream.writes[site], torch.sigmoid(stream.gates[site])
        if partial[0] is None:
            partial = [b[0] * y, b[1] * y]
        else:
            partial = [r * partial[s] + (1 - r) * partial[1 - s] + b[s] * y for s in (0, 1)]
        if (site + 1) % size == 0:
            histories = [[*h, p] for h, p in zip(histories, partial, strict=True)]
            partial = [None, None]
    check(stream, expected)


def test_two_streams_of_dar_part_from_each_other() -> None:
    """From its start, where they are equal."""
    model = build(job({"residual": "dar", "block_size": 2}))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for _ in range(3):
        model.zero_grad()
        model.token_losses(tokens(job({}), 2, 17)).mean().backward()
        optimizer.step()
    queries = model.stream.sites[3].queries
    assert not torch.allclose(queries[0], queries[1])


@pytest.mark.parametrize("form", ["fixed", "per_head"])
def test_mhar_hw(form: str) -> None:
    """Group by group: attention's projections of the group's mixture, of which only its heads are kept."""
    config = job({"residual": "mhar_hw", "routing_heads": 4, "logit_scale": 0.5, "logit_scale_form": form})
    model = perturb(build(config))
    stream, inputs = model.stream, tokens(config)
    sources = [model.embedding[inputs]]

    def mixed(site: int, query: Tensor, scales: Any) -> Tensor:
        rows = [source.flatten(0, 1) for source in sources]
        return routed(rows, query, stream.key_weights[site], scales).view_as(sources[0])

    for n, block in enumerate(model.blocks):
        per_group = []
        for group, query in enumerate(stream.queries[2 * n]):
            scale = stream.logit_scales[2 * n][group] if form == "per_head" else 0.5
            normed = block.attention.norm(mixed(2 * n, query, [scale]))
            q, k, v = block.attention.project(normed, normed, normed)
            per_group.append((q[:, :, 2 * group : 2 * group + 2], k[:, :, [group]], v[:, :, [group]]))
        q, k, v = (torch.cat(parts, dim=2) for parts in zip(*per_group, strict=True))
        sources.append(block.attention.mix(q, k, v, model.rotation))
        site = 2 * n + 1
        scales = stream.logit_scales[site] if form == "per_head" else [0.5] * 4
        sources.append(block.mlp(mixed(site, stream.queries[site], scales)))
    scales = stream.logit_scales[-1] if form == "per_head" else [0.5] * 4
    expected = model.norm(mixed(-1, stream.queries[-1], scales)) @ model.embedding.T
    torch.testing.assert_close(model(inputs), expected, rtol=0, atol=1e-11)

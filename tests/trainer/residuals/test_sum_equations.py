"""The streams that are sums of states, against their equations."""

import math
from collections.abc import Callable

import pytest
import torch
from residual_reference import (
    WIDTH,
    check,
    embedding,
    rms_norm,
    stream_of,
    sublayers,
)
from residual_variants import build, job, perturb, tokens
from torch import Tensor

from headcount.trainer.model.transformer import Transformer


def test_denseformer() -> None:
    stream = stream_of(residual="denseformer")
    x, states, expected = embedding(), [embedding()], []
    for site, sublayer in enumerate(sublayers()):
        expected.append(x)
        x = x + sublayer(x)
        if site % 2:
            states.append(x)
            x = sum(w * state for w, state in zip(stream.depth_weights[site // 2], states, strict=True))
    check(stream, [*expected, x])


@pytest.mark.parametrize("form", ["rw", "lr", "pa", "rw_lr"])
def test_laurel(form: str) -> None:
    stream = stream_of(residual="laurel", laurel_form=form, laurel_rank=3, laurel_past=3)
    history = [embedding()]
    for sublayer, c in zip(sublayers(), stream.sublayers, strict=True):
        x = history[-1]
        alpha, beta = 2 * torch.softmax(c.logits, 0) if "rw" in form else (1.0, 1.0)
        carried = x if form == "rw" else x + x @ c.down.T @ c.up.T
        if form == "pa":
            past = history[::-1][:3]
            carried = x + sum(g * (z @ c.down.T @ c.up.T) for g, z in zip(c.past, past, strict=True))
        history.append(alpha * sublayer(x) + beta * carried)
    check(stream, history)


def test_the_low_rank_map_of_laurel_starts_as_published() -> None:
    stream = build(job({"residual": "laurel", "laurel_form": "lr", "laurel_rank": 4})).stream
    down = stream.sublayers[0].down
    expected = [[1 / math.sqrt(4 * WIDTH) if i % 4 == j else 0.0 for i in range(WIDTH)] for j in range(4)]
    assert torch.allclose(down, torch.tensor(expected, dtype=torch.float64), rtol=1e-7)
    assert not stream.sublayers[0].up.any()


@pytest.mark.parametrize("loops", [1, 2])
def test_deeploop(loops: int) -> None:
    config = job({"residual": "deeploop", "loops": loops})
    model = perturb(build(config))
    inputs = tokens(config)
    x = model.embedding[inputs]
    for _ in range(loops):
        for n, block in enumerate(model.blocks):
            for site, call in (
                (2 * n, lambda x, b=block: b.attention(x, model.rotation)),
                (2 * n + 1, block.mlp),
            ):
                x = rms_norm(math.sqrt(2 * 2 * loops) * x + call(x), model.stream.norms[site].weight)
    torch.testing.assert_close(model(inputs), model.norm(x) @ model.embedding.T, rtol=0, atol=1e-11)
    assert model.stream.beta == 1 / math.sqrt(8 * 2 * loops)


def logits_by_blocks(
    model: Transformer, attend: Callable[[int, list[Tensor]], Tensor], after: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """The logits of an additive stream whose attention and block ends are as given; of `tokens`."""
    x = model.embedding[tokens(job({}))]
    for n, block in enumerate(model.blocks):
        x = x + attend(n, [x])
        x = after(n, x + block.mlp(x))
    logits: Tensor = model.norm(x) @ model.embedding.T
    return logits


@pytest.mark.parametrize("mix", ["constant", "learned"])
def test_value_residual(mix: str) -> None:
    config = job({"residual": "value_residual", "value_mix": mix}, layers=3)
    model = perturb(build(config))
    values: list[Tensor] = []

    def attend(n: int, x: list[Tensor]) -> Tensor:
        attention = model.blocks[n].attention
        normed = attention.norm(x[0])
        query, key, value = attention.project(normed, normed, normed)
        values.append(value)
        if n:
            own, first = model.stream.pairs[n - 1] if mix == "learned" else (0.5, 0.5)
            value = own * value + first * values[0]
        output: Tensor = attention.mix(query, key, value, model.rotation)
        return output

    expected = logits_by_blocks(model, attend, lambda n, x: x)
    torch.testing.assert_close(model(tokens(config)), expected, rtol=0, atol=1e-11)


def test_muddformer() -> None:
    config = job({"residual": "muddformer"}, layers=3)
    model = perturb(build(config))
    stream = model.stream
    sources = [rms_norm(model.embedding[tokens(config)], stream.source_norms[0].weight)]
    ways: list[Tensor] = []

    def attend(n: int, x: list[Tensor]) -> Tensor:
        attention = model.blocks[n].attention
        query, key, value = ways[:3] if n else x * 3
        normed = [
            rms_norm(query, attention.norm.weight),
            rms_norm(key, stream.key_norms[n].weight),
            rms_norm(value, stream.value_norms[n].weight),
        ]
        output: Tensor = attention.mix(*attention.project(*normed), model.rotation)
        return output

    def after(n: int, x: Tensor) -> Tensor:
        sources.append(rms_norm(x, stream.source_norms[n + 1].weight))
        dense, last = stream.dense[n], n == 2
        hidden = torch.nn.functional.gelu(rms_norm(x) @ dense.hidden.weight.T)
        weights = (hidden @ dense.output.weight.T).view(*x.shape[:2], 1 if last else 4, n + 2) + dense.static
        sums = [sum(w[..., j, None] * s for j, s in enumerate(sources)) for w in weights.unbind(2)]
        ways[:] = [x + way for way in sums[:-1]]
        return x + rms_norm(sums[-1], dense.post_norm.weight)

    expected = logits_by_blocks(model, attend, after)
    torch.testing.assert_close(model(tokens(config)), expected, rtol=0, atol=1e-11)

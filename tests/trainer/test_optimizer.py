from collections.abc import Callable

import pytest
import torch

from headcount.trainer.config import JobConfig
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.optimizer import build_optimizer, set_learning_rate
from headcount.trainer.residuals.registry import stream_names


def test_every_parameter_is_in_one_group_with_decay(small_job: Callable[..., JobConfig]) -> None:
    config = small_job(model__residual="mhar")
    model = Transformer(config.model, config.data.context, seed=0)
    (group,) = build_optimizer(model, config.train).param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in model.parameters()]
    assert (group["betas"], group["eps"], group["weight_decay"]) == ((0.9, 0.95), 1e-8, 0.1)


@pytest.mark.parametrize("residual", stream_names())
def test_every_parameter_of_every_stream_is_in_exactly_one_group(
    small_job: Callable[..., JobConfig], residual: str
) -> None:
    config = small_job(model__residual=residual)
    model = Transformer(config.model, config.data.context, seed=0)
    groups = build_optimizer(model, config.train).param_groups
    placed = [id(p) for group in groups for p in group["params"]]
    assert sorted(placed) == sorted(id(p) for p in model.parameters())
    spared = {id(p) for p in model.stream.undecayed()}
    for group in groups:
        for p in group["params"]:
            assert group["weight_decay"] == (0.0 if id(p) in spared else 0.1)


def test_an_update_is_adamw_at_the_rate_that_was_set(small_job: Callable[..., JobConfig]) -> None:
    """Loshchilov and Hutter 2019 (arXiv 1711.05101), algorithm 2, over three updates."""
    config = small_job()
    train = config.train
    model = Transformer(config.model, config.data.context, seed=0)
    optimizer = build_optimizer(model, train)
    weight = model.get_parameter("blocks.0.mlp.up.weight")
    expected = weight.detach().double()
    first = second = torch.zeros_like(expected)
    generator = torch.Generator().manual_seed(0)
    for t, rate in enumerate((0.1, 0.05, 0.2), start=1):
        weight.grad = torch.randn(weight.shape, generator=generator)
        set_learning_rate(optimizer, rate)
        optimizer.step()
        gradient = weight.grad.double()
        first = train.beta1 * first + (1 - train.beta1) * gradient
        second = train.beta2 * second + (1 - train.beta2) * gradient**2
        unbiased = first / (1 - train.beta1**t), second / (1 - train.beta2**t)
        expected = expected - rate * train.weight_decay * expected
        expected = expected - rate * unbiased[0] / (unbiased[1].sqrt() + train.adam_eps)
    assert torch.allclose(weight.double(), expected, atol=1e-6)


def test_the_streams_parameters_may_have_a_rate_of_their_own(small_job: Callable[..., JobConfig]) -> None:
    config = small_job(
        model__residual="mhar",
        model__query_decay="spared",
        train__routing_lr_ratio=10.0,
        train__weight_decay=0.5,
    )
    model = Transformer(config.model, config.data.context, seed=0)
    optimizer = build_optimizer(model, config.train)
    set_learning_rate(optimizer, 0.01)
    rates = {id(p): (float(g["lr"]), g["weight_decay"]) for g in optimizer.param_groups for p in g["params"]}
    for parameter in model.stream.parameters():
        assert rates[id(parameter)] == (pytest.approx(0.1), 0.0)
    assert rates[id(model.embedding)] == (pytest.approx(0.01), 0.5)
    assert len(rates) == len(list(model.parameters()))

from typing import Any

import pytest
import torch
from residual_variants import VARIANTS, build, job, perturb

from headcount.trainer.errors import UserError
from headcount.trainer.generation import generate
from headcount.trainer.model.transformer import Transformer


def model_of(variant: dict[str, Any]) -> Transformer:
    return perturb(build(job(variant)))


def prompt(tokens: int = 5) -> torch.Tensor:
    return torch.randint(0, 19, (3, tokens), generator=torch.Generator().manual_seed(1))


def text(model: Transformer, count: int = 8, **how: Any) -> torch.Tensor:
    return torch.stack(list(generate(model, prompt(), count, **how)), dim=1)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
def test_the_cache_changes_nothing(variant: dict[str, Any]) -> None:
    model = model_of(variant)
    assert torch.equal(text(model), text(model, cached=False))


def test_greedy_tokens_are_the_likeliest_after_the_whole_text() -> None:
    model = model_of({"residual": "mhar", "routing_heads": 4})
    whole = torch.cat((prompt(), text(model)), dim=1)
    with torch.no_grad():
        likeliest = model(whole).argmax(-1)
    assert torch.equal(whole[:, 5:], likeliest[:, 4:-1])


def test_draws_depend_on_the_seed_alone() -> None:
    model = model_of({"residual": "mhar"})
    drawn = text(model, temperature=1.0, seed=3)
    assert torch.equal(drawn, text(model, temperature=1.0, seed=3, cached=False))
    assert not torch.equal(drawn, text(model, temperature=1.0, seed=4))
    assert torch.equal(text(model, temperature=1e-4, seed=3), text(model))


def test_the_context_is_the_limit() -> None:
    model = model_of({"residual": "mhar"})
    assert text(model, 12).shape == (3, 12)  # of 16, and the last is not read
    with pytest.raises(UserError, match="a prompt of 5 tokens and 13 more do not fit: the model reads 16"):
        text(model, 13)
    with pytest.raises(UserError, match="a prompt of 0 tokens"):
        list(generate(model, prompt(0), 1))


def test_a_generation_left_half_way_leaves_the_model_as_it_was() -> None:
    model = model_of({"residual": "mhar"})
    with torch.no_grad():
        before = model(prompt())
    tokens = generate(model, prompt(), 4)
    next(tokens)
    with torch.no_grad():
        assert torch.equal(model(prompt()), before)
    next(tokens)
    tokens.close()

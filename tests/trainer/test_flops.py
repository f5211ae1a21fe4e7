from dataclasses import replace

import pytest

from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.flops import flops_per_token, job_flops, parameter_count
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.residuals.registry import stream_names
from headcount.trainer.scales import SCALES


def narrow(scale: str, residual: str) -> JobConfig:
    """The scale's depth and heads, at a sixteenth of its width or less."""
    shape = SCALES[scale]
    heads = shape["model.heads"]
    return job_from_fields(
        {
            "model.scale": scale,
            "model.residual": residual,
            "model.d_model": 2 * heads,
            "model.d_ff": shape["model.d_ff"] // 16,
            "data.context": 16,
        }
    )


@pytest.mark.parametrize("residual", stream_names())
@pytest.mark.parametrize("scale", SCALES)
def test_the_count_is_that_of_the_model(scale: str, residual: str) -> None:
    config = narrow(scale, residual)
    model = Transformer(config.model, config.data.context, seed=0)
    assert parameter_count(config) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("residual", stream_names())
def test_the_count_is_that_of_a_model_like_a_pretrained_one(residual: str) -> None:
    """Its heads are not as wide as d_model together."""
    options = {"qk_norm": "none", "qkv_bias": "learned", "unembedding": "own", "head_width": 6}
    shape = {"d_model": 32, "heads": 4, "kv_heads": 2, "residual": residual}
    config = job_from_fields({f"model.{name}": value for name, value in {**shape, **options}.items()})
    model = Transformer(config.model, config.data.context, seed=0)
    assert parameter_count(config) == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("scale", "added"), [("100m", 25_600), ("350m", 100_352), ("1b", 186_880)])
def test_routing_adds_the_published_parameters(scale: str, added: int) -> None:
    def count(residual: str) -> int:
        return parameter_count(job_from_fields({"model.scale": scale, "model.residual": residual}))

    assert count("mhar") - count("additive") == added


def test_flops_by_hand() -> None:
    """d 64, 2 layers, 4 heads, 2 KV heads, d_ff 192, vocabulary 256, context 128; 5 sites read 15 sources."""
    config = job_from_fields({"model.scale": "nano"})
    weights = 2 * (64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 192) + 256 * 64
    control = 6 * weights + 6 * 2 * 64 * 128
    assert flops_per_token(config) == control
    routed = replace(config, model=replace(config.model, residual="mhar"))
    assert flops_per_token(routed) == control + 18 * 64 * 15
    assert job_flops(config) == pytest.approx(control * (240 * 1024 + 41 * 64 * 128 / 3), rel=1e-12)

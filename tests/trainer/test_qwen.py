"""The additive model is a Qwen3 with its embedding tied: equal to transformers' implementation of it."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from headcount.trainer.config import JobConfig
from headcount.trainer.model import Transformer

NAMES = {
    "model.embed_tokens.weight": "embedding",
    "model.norm.weight": "norm.weight",
    "input_layernorm": "attention.norm",
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.o_proj": "attention.output",
    "self_attn.q_norm": "attention.query_norm",
    "self_attn.k_norm": "attention.key_norm",
    "post_attention_layernorm": "mlp.norm",
    "mlp.gate_proj": "mlp.gate",
    "mlp.up_proj": "mlp.up",
    "mlp.down_proj": "mlp.down",
}
"""Theirs to ours."""


def random_qwen(job: JobConfig) -> Qwen3ForCausalLM:
    """A Qwen3 of the job's shape in float64, every weight drawn, norms too."""
    shape = job.model
    config = Qwen3Config(
        vocab_size=shape.vocab_size,
        hidden_size=shape.d_model,
        intermediate_size=shape.d_ff,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.d_model // shape.heads,
        rms_norm_eps=shape.norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        max_position_embeddings=job.data.context,
        tie_word_embeddings=True,
        attn_implementation="eager",
    )
    model = Qwen3ForCausalLM(config).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            draw = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.3 * draw + (parameter.dim() == 1))
    return model


def ours_of(qwen: Qwen3ForCausalLM, job: JobConfig) -> Transformer:
    model = Transformer(job.model, job.data.context, seed=0).double()
    model.compute_dtype = torch.float64
    model.load_state_dict({name: parameter.data for name, parameter in paired(qwen)})
    return model


def paired(qwen: Qwen3ForCausalLM) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Our name of each of their parameters."""
    for name, parameter in qwen.named_parameters():
        if name in NAMES:
            yield NAMES[name], parameter
        else:
            _, _, layer, rest = name.split(".", 3)
            yield f"blocks.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight", parameter


def tokens_of(job: JobConfig) -> Tensor:
    shape = (3, job.data.context)
    return torch.randint(0, job.model.vocab_size, shape, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def _no_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs computes norms, angles and the softmax in float32 whatever its weights: here in float64 too."""
    monkeypatch.setattr(torch, "float32", torch.float64)
    monkeypatch.setattr(torch, "float", torch.float64)
    monkeypatch.setattr(Tensor, "float", Tensor.double)


@pytest.mark.usefixtures("_no_float32")
@pytest.mark.parametrize(("kv_heads", "theta"), [(1, 1e4), (2, 1e4), (4, 1e4), (2, 5e5)])
def test_logits_and_gradients_equal_those_of_transformers(
    small_job: Callable[..., JobConfig], kv_heads: int, theta: float
) -> None:
    job = small_job(model__kv_heads=kv_heads, model__rope_theta=theta, model__layers=3)
    qwen = random_qwen(job)
    ours = ours_of(qwen, job)
    windows = tokens_of(job)
    theirs = qwen(windows).logits
    assert theirs.std() > 1  # the comparison is of something
    assert torch.allclose(ours(windows), theirs, rtol=0, atol=1e-11)
    mine = ours.token_losses(windows).sum() / windows[:, 1:].numel()
    target = windows[:, 1:].flatten()
    loss = torch.nn.functional.cross_entropy(theirs[:, :-1].flatten(0, 1), target)
    assert mine.item() == pytest.approx(loss.item(), rel=1e-12)
    weights = torch.randn(theirs.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (ours(windows) * weights).sum().backward()
    (theirs * weights).sum().backward()
    for name, parameter in paired(qwen):
        gradient = ours.get_parameter(name).grad
        assert gradient is not None
        assert parameter.grad is not None
        assert torch.allclose(gradient, parameter.grad, rtol=1e-9, atol=1e-10), name

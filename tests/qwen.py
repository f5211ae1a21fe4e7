"""A random Qwen3 of transformers, and the additive model of ours with its weights."""

from collections.abc import Iterator

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from headcount.trainer.config import JobConfig
from headcount.trainer.model.transformer import Transformer

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

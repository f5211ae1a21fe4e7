"""What a weight is called in a model of ours and in a checkpoint of Llama, Qwen or Mistral."""

_OUTER = {
    "embedding": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "unembedding": "lm_head.weight",
}

_INNER = {
    "attention.norm": "input_layernorm",
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "mlp.norm": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
}

_ROUTING = {
    "queries": "query",
    "key_weights": "key_weight",
    "nulls": "null",
    "gates": "gate",
    "logit_scales": "logit_scale",
}
"""Theirs are of `remote/modeling_headcount.py`: transformers takes parts of some names, such as `gamma`, for
older names of others, and would not find what was saved."""


def is_routing(name: str) -> bool:
    """Whether the weight of ours is the residual stream's."""
    return name.startswith("stream.")


def huggingface_name(name: str) -> str:
    """Theirs for the weight `name` of ours."""
    if name in _OUTER:
        return _OUTER[name]
    if is_routing(name):
        _, kind, site = name.split(".")
        part = "mlp" if int(site) % 2 else "attention"
        return f"model.layers.{int(site) // 2}.{part}_routing.{_ROUTING[kind]}"
    _, layer, part, rest = name.split(".", 3)
    inner, _, kind = f"{part}.{rest}".rpartition(".")
    return f"model.layers.{layer}.{_INNER[inner]}.{kind}"

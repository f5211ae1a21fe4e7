"""Small random checkpoints of each family, made by transformers and kept as shards."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

SHAPE = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
}

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

CHECKPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {"rope_parameters": LLAMA3, "tie_word_embeddings": True}),
    "mistral": ("mistral", {"head_dim": 6, "sliding_window": None, "num_key_value_heads": 1}),
    "qwen2": (
        "qwen2",
        {
            "rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 4.0},
            "num_key_value_heads": 4,
        },
    ),
    "qwen3": (
        "qwen3",
        {
            "head_dim": 16,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e4,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        },
    ),
}


def write_checkpoint(folder: Path, name: str, dtype: torch.dtype = torch.float32, **changed: Any) -> Path:
    """Every weight drawn, norms and biases too."""
    family, own = CHECKPOINTS[name]
    config = AutoConfig.for_model(family, **{**SHAPE, **own, **changed})
    model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            draw = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.2 * draw + (parameter.dim() == 1))
    model.save_pretrained(folder, max_shard_size="30KB")
    return folder

"""A checkpoint of random weights, to try a conversion where there is no pretrained one."""

from pathlib import Path
from typing import Any

import torch

from headcount.trainer.config import BYTE_VOCABULARY
from headcount.trainer.convert.extras import optional
from headcount.trainer.scales import SCALES

VOCABULARY = 151_936
"""The published one; the smallest scales have that of bytes."""

_LONG_WINDOWS: dict[str, Any] = {
    "llama": {
        "rope_type": "llama3",
        "rope_theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 1024,
    },
    "qwen3": {
        "rope_type": "yarn",
        "rope_theta": 1_000_000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 2048,
    },
}


def write_random(folder: Path, family: str, scale: str) -> None:
    """In bfloat16 and shards of 1 GB, of the scale's shape. `llama` and `qwen3` have their embedding tied,
    and windows of 8,192 tokens by RoPE scaling."""
    transformers = optional("transformers")
    shape = SCALES[scale]
    long = _LONG_WINDOWS.get(family)
    config = transformers.AutoConfig.for_model(
        family,
        vocab_size=BYTE_VOCABULARY if scale in ("nano", "micro") else VOCABULARY,
        hidden_size=shape["model.d_model"],
        intermediate_size=shape["model.d_ff"],
        num_hidden_layers=shape["model.layers"],
        num_attention_heads=shape["model.heads"],
        num_key_value_heads=shape["model.kv_heads"],
        head_dim=shape["model.d_model"] // shape["model.heads"],
        max_position_embeddings=8192 if long else 4096,
        rope_parameters=long or {"rope_type": "default", "rope_theta": 10_000.0},
        tie_word_embeddings=long is not None,
    )
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder, max_shard_size="1GB")

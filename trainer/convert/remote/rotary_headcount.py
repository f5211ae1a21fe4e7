"""Rotary positions, as far as transformers' configurations name them: plain, linear, Llama 3's and YaRN."""

import math

import torch
from torch import Tensor

from .configuration_headcount import HeadcountConfig


def rotary_angles(positions: Tensor, config: HeadcountConfig) -> Tensor:
    """Cosine and sine for positions [B, T]: [2, B, T, 1, head_dim / 2], float64.

    Nothing of it is kept in the model: what is not saved does not survive being made without memory.
    """
    rope = config.rope_parameters
    angles = positions.to(torch.float64)[..., None, None] * _frequencies(config, positions.device)
    rotation = torch.stack((angles.cos(), angles.sin()))
    if rope["rope_type"] == "yarn":
        rotation = rotation * (0.1 * math.log(rope["factor"]) + 1)
    return rotation


def _frequencies(config: HeadcountConfig, device: torch.device) -> Tensor:
    """In radians a token, [head_dim / 2]: theta^(−2i / head_dim), low ones divided by the factor."""
    rope, width = config.rope_parameters, config.head_dim
    kind, theta, factor = rope["rope_type"], float(rope["rope_theta"]), float(rope.get("factor", 1.0))
    plain: Tensor = theta ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
    if kind == "default":
        return plain
    if kind == "linear":
        return plain / factor
    kept: Tensor
    context = rope["original_max_position_embeddings"]
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        kept = ((plain * context / (2 * math.pi) - low) / (high - low)).clamp(0, 1)
    elif kind == "yarn":
        last, first = (
            width * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(theta)) for turns in (1.0, 32.0)
        )
        start, end = max(math.floor(first), 0), min(math.ceil(last), width - 1)
        ramp = (torch.arange(width // 2, dtype=torch.float64, device=device) - start) / max(
            end - start, 0.001
        )
        kept = 1 - ramp.clamp(0, 1)
    else:
        raise ValueError(f"rope_type: got {kind!r}; expected default, linear, llama3 or yarn")
    return plain * kept + plain / factor * (1 - kept)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """x: [B, T, heads, head_dim], by what `rotary_angles` gives."""
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

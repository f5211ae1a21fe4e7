"""Rotary positions: the frequencies, lowered for long windows where the model says so, and the rotation."""

import math

import torch
from torch import Tensor

from headcount.trainer.config import ModelConfig

LLAMA3_TURNS = (1.0, 4.0)
"""Of a wave over the original context: those with fewer are divided by the whole factor, those with more by
nothing (the low and high frequency factors of every Llama from 3.1 on)."""

YARN_TURNS = (1.0, 32.0)
"""Likewise (beta slow and beta fast of YaRN, arXiv 2309.00071)."""


def rotary_angles(context: int, config: ModelConfig) -> Tensor:
    """Cosine and sine of position times frequency: [2, context, 1, head width / 2], float64.

    With `yarn` both are multiplied by 0.1·ln(factor) + 1, so that logits are by its square.
    """
    angles = torch.outer(torch.arange(context, dtype=torch.float64), rotary_frequencies(config)).unsqueeze(1)
    rotation = torch.stack((angles.cos(), angles.sin()))
    if config.rope_scaling == "yarn":
        rotation *= 0.1 * math.log(config.rope_factor) + 1
    return rotation


def rotary_frequencies(config: ModelConfig) -> Tensor:
    """In radians a token: [head width / 2], float64, the highest first.

    Frequency i is theta^(−2i / head width) (Su et al. 2021, arXiv 2104.09864). `linear` divides all by the
    factor. `llama3` and `yarn` divide low ones by it and leave high ones, with a ramp between: in the number
    of turns a frequency makes over the original context, or in i.
    """
    width = config.width_of_head
    plain = config.rope_theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    match config.rope_scaling:
        case "none":
            return plain
        case "linear":
            return plain / config.rope_factor
        case "llama3":
            low, high = LLAMA3_TURNS
            turns = plain * config.rope_original_context / (2 * math.pi)
            kept = ((turns - low) / (high - low)).clamp(0, 1)
        case "yarn":
            last, first = (_index_at(turns, config) for turns in YARN_TURNS)
            start, end = max(math.floor(first), 0), min(math.ceil(last), width - 1)
            ramp = (torch.arange(width // 2, dtype=torch.float64) - start) / max(end - start, 0.001)
            kept = 1 - ramp.clamp(0, 1)
    return plain * kept + plain / config.rope_factor * (1 - kept)


def _index_at(turns: float, config: ModelConfig) -> float:
    """Which frequency, counted from the highest, makes so many turns over the original context."""
    ratio = config.rope_original_context / (turns * 2 * math.pi)
    return config.width_of_head * math.log(ratio) / (2 * math.log(config.rope_theta))


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Turn the pair (i, i + width/2) of each head by its position's angle i. x: [B, T, heads, width]."""
    cos, sin = rotation[:, : x.shape[1]]
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)

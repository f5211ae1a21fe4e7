"""Validation: the same windows at every evaluation of every job that shares data and protocol."""

import math

import torch
from torch import Tensor

from headcount.trainer.model import Transformer


@torch.no_grad()
def window_losses(model: Transformer, windows: Tensor, pass_windows: int) -> tuple[float, ...]:
    """Mean loss of each window, nats a token. windows: [n, context + 1], taken `pass_windows` at a time."""
    losses = [model.token_losses(part).mean(dim=1) for part in torch.split(windows, pass_windows)]
    return tuple(torch.cat(losses).tolist())


def mean_loss(losses: tuple[float, ...]) -> float:
    """Mean over all tokens; the windows are equally long."""
    return math.fsum(losses) / len(losses)

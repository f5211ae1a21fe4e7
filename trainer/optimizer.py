"""AdamW on every parameter."""

from typing import Any

import torch

from headcount.trainer.config import TrainConfig
from headcount.trainer.model import Transformer


def build_optimizer(model: Transformer, train: TrainConfig) -> torch.optim.AdamW:
    """Weight decay applies to all parameters, norms and queries too (the paper's recipe), but for those that
    the residual stream spares.

    The parameters are the float32 masters. The learning rate is set before each update.
    """
    undecayed = list(model.stream.undecayed())
    spared = {id(parameter) for parameter in undecayed}
    groups: list[dict[str, Any]] = [{"params": [p for p in model.parameters() if id(p) not in spared]}]
    if undecayed:
        groups.append({"params": undecayed, "weight_decay": 0.0})
    return torch.optim.AdamW(
        groups,
        lr=train.peak_lr,
        betas=(train.beta1, train.beta2),
        eps=train.adam_eps,
        weight_decay=train.weight_decay,
        fused=True,
    )


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate

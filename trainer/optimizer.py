"""AdamW on every parameter."""

from typing import Any

import torch

from headcount.trainer.config import TrainConfig
from headcount.trainer.model.transformer import Transformer


def build_optimizer(model: Transformer, train: TrainConfig) -> torch.optim.AdamW:
    """Weight decay applies to all parameters, norms and queries too (the paper's recipe), but for those that
    the residual stream spares.

    The parameters are the float32 masters. The learning rate is a tensor, set before each update, so that
    nothing is compiled or captured again for another one.
    """
    undecayed = list(model.stream.undecayed())
    spared = {id(parameter) for parameter in undecayed}
    groups: list[dict[str, Any]] = [{"params": [p for p in model.parameters() if id(p) not in spared]}]
    if undecayed:
        groups.append({"params": undecayed, "weight_decay": 0.0})
    on_gpu = model.embedding.is_cuda
    dtype = torch.float32 if on_gpu else torch.float64
    rate = torch.tensor(train.peak_lr, dtype=dtype, device=model.embedding.device)
    optimizer = torch.optim.AdamW(
        groups,
        lr=rate,
        betas=(train.beta1, train.beta2),
        eps=train.adam_eps,
        weight_decay=train.weight_decay,
        fused=True,
        capturable=on_gpu,
    )
    optimizer._warned_capturable_if_run_uncaptured = True
    return optimizer


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    optimizer.param_groups[0]["lr"].fill_(rate)  # the one tensor of all groups


def restore_moments(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> None:
    """Take the moments and step counts of a state dict `saved`, in place where there are some already."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, moments in saved["state"].items():
        own = optimizer.state[parameters[index]]
        for name, value in moments.items():
            if name in own:
                own[name].copy_(value)
            else:
                own[name] = value.to(parameters[index].device)

"""AdamW on every parameter."""

from typing import Any

import torch
from torch import Tensor

from headcount.trainer.config import TrainConfig
from headcount.trainer.model.transformer import Transformer


def build_optimizer(model: Transformer, train: TrainConfig) -> torch.optim.AdamW:
    """Weight decay applies to all parameters, norms and queries too (the paper's recipe), but for those that
    the residual stream spares.

    The parameters are the float32 masters. The learning rate is a tensor, set before each update, so that
    nothing is compiled or captured again for another one.
    """
    on_gpu = model.embedding.is_cuda
    dtype = torch.float32 if on_gpu else torch.float64
    rate = torch.tensor(train.peak_lr, dtype=dtype, device=model.embedding.device)
    undecayed = list(model.stream.undecayed())
    spared = {id(parameter) for parameter in undecayed}
    groups: list[dict[str, Any]] = [{"params": [p for p in model.parameters() if id(p) not in spared]}]
    if undecayed:
        groups.append({"params": undecayed, "weight_decay": 0.0})
    if train.routing_lr_ratio != 1:
        groups = _apart(groups, model, train.routing_lr_ratio * rate, train.routing_lr_ratio)
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


def _apart(
    groups: list[dict[str, Any]], model: Transformer, rate: Tensor, ratio: float
) -> list[dict[str, Any]]:
    """The groups, each with the residual stream's parameters in a group of their own, at `rate`."""
    own = {id(parameter) for parameter in model.stream.parameters()}
    found = []
    for group in groups:
        others = [p for p in group["params"] if id(p) not in own]
        routing = [p for p in group["params"] if id(p) in own]
        found += [{**group, "params": others}] if others else []
        found += [{**group, "params": routing, "lr": rate, "ratio": ratio}] if routing else []
    return found


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Of the next update, in every group's tensor; the stream's own parameters have it by their ratio."""
    for group in optimizer.param_groups:  # several may share a tensor
        group["lr"].fill_(rate * group.get("ratio", 1.0))


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

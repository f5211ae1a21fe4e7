"""One update of a model: the gradient of the mean token loss, clipped, then AdamW."""

import math
from typing import Any

import torch
from torch import Tensor

from headcount.trainer.config import TrainConfig
from headcount.trainer.model import Transformer
from headcount.trainer.optimizer import build_optimizer, set_learning_rate


class Updater:
    """Updates `model` in place, `micro_batch` windows at a time. Nothing here waits for the device."""

    def __init__(self, model: Transformer, train: TrainConfig, micro_batch: int) -> None:
        self.model, self.train, self.micro_batch = model, train, micro_batch
        self.optimizer = build_optimizer(model, train)

    def update(self, windows: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """One update at the learning rate `rate`: the mean token loss before it and the gradient's norm before
        clipping, both on the device.

        windows: [n, context + 1] tokens, on the model's device.
        """
        set_learning_rate(self.optimizer, rate)
        loss = accumulate_gradient(self.model, windows, self.micro_batch)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.train.clip_norm or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss, norm

    def state(self) -> dict[str, Any]:
        """The weights and the optimizer's moments, for a checkpoint."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


def accumulate_gradient(model: Transformer, windows: Tensor, micro_batch: int) -> Tensor:
    """Add the gradient of the mean token loss to the parameters' own; returns that loss.

    windows: [n, context + 1], taken `micro_batch` at a time; the last part may be smaller.
    """
    tokens = windows[:, 1:].numel()
    loss = torch.zeros((), device=windows.device)
    for part in torch.split(windows, micro_batch):
        share = model.token_losses(part).sum() / tokens
        share.backward()  # type: ignore[no-untyped-call]
        loss += share.detach()
    return loss

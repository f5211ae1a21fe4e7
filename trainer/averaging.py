"""An exponential moving average of a model's weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """Starts at the model's weights; after each update, average ← decay · average + (1 − decay) · weights."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self._names, self._weights = zip(*model.named_parameters(), strict=True)
        self._average = [weight.detach().clone() for weight in self._weights]

    @torch.no_grad()
    def update(self) -> None:
        torch._foreach_lerp_(self._average, [w.detach() for w in self._weights], 1 - self.decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Inside, the model has the average, at the same addresses; outside, its weights as before."""
        self._exchange()
        try:
            yield
        finally:
            self._exchange()

    def state(self) -> dict[str, Tensor]:
        return dict(zip(self._names, self._average, strict=True))

    def restore(self, state: dict[str, Tensor]) -> None:
        for name, average in zip(self._names, self._average, strict=True):
            average.copy_(state[name])

    @torch.no_grad()
    def _exchange(self) -> None:
        for weight, average in zip(self._weights, self._average, strict=True):
            kept = weight.clone()
            weight.copy_(average)
            average.copy_(kept)

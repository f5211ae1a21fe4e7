"""When a job counts as diverged: an outcome of training, not an error."""

import math

from headcount.trainer.config import TrainConfig
from headcount.trainer.events import Spike

_SMOOTHING = 0.05
_LIMIT = 1.3
_LEAST_RISE = 0.1
"""Nats: of a text learned by heart, 1.3 times its loss is no rise at all."""
_PATIENCE = 0.05


class DivergenceWatch:
    """Diverged: a loss that is not finite, or, after warm-up, a smoothed loss (an exponential moving average
    over about 20 updates) above 1.3x its best, and by 0.1 nat, for a twentieth of the job's steps on end.

    A rise that ends earlier is a spike: `recovered` counts them, and `spikes` lists them until it is emptied.
    """

    def __init__(self, train: TrainConfig) -> None:
        self._warmup = train.warmup_steps
        self._patience = max(1, math.ceil(_PATIENCE * train.steps))
        self._smoothed = self._best = math.inf
        self._above, self._highest = 0, 0.0
        self.spikes: list[Spike] = []
        self.recovered = 0

    def diverges(self, step: int, loss: float) -> bool:
        """Take in the training loss of update `step`, in order; True ends the job there."""
        if not math.isfinite(loss):
            return True
        first = math.isinf(self._smoothed)
        self._smoothed = loss if first else self._smoothed + _SMOOTHING * (loss - self._smoothed)
        self._best = min(self._best, self._smoothed)
        limit = max(_LIMIT * self._best, self._best + _LEAST_RISE)
        if step >= self._warmup and self._smoothed > limit:
            self._above += 1
            self._highest = max(self._highest, self._smoothed / self._best)
        elif self._above:
            self.spikes.append(Spike(step - self._above, self._above, self._highest))
            self.recovered += 1
            self._above, self._highest = 0, 0.0
        return self._above >= self._patience

    def state(self) -> dict[str, float]:
        return {
            "smoothed": self._smoothed,
            "best": self._best,
            "above": self._above,
            "highest": self._highest,
            "recovered": self.recovered,
        }

    def restore(self, state: dict[str, float]) -> None:
        self._smoothed, self._best = state["smoothed"], state["best"]
        self._above, self._highest = int(state["above"]), state["highest"]
        self.recovered = int(state["recovered"])

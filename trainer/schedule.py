"""The learning rate of each update. Imports without torch.

All schedules rise linearly to the peak over the warm-up, and all but `constant` end at `min_lr_ratio` of it:

    cosine          half a cosine from the warm-up on (Loshchilov and Hutter 2017, arXiv 1608.03983)
    linear          a straight line from the warm-up on
    wsd             the peak, then a straight line over the last `decay_fraction` of the steps (warm-up,
                    stable, decay: Hu et al. 2024, arXiv 2404.06395; the straight line is Hägele et al. 2024,
                    2405.18392)
    one_minus_sqrt  as wsd, but falling as 1 − √progress (Hägele et al.)
    constant        the peak
"""

import math

from headcount.trainer.sections import TrainConfig


def learning_rate(train: TrainConfig, step: int) -> float:
    """Of update `step`, from 0. The last warm-up update has the peak, the last update of all the end."""
    if step < train.warmup_steps:
        return train.peak_lr * (step + 1) / train.warmup_steps
    return train.peak_lr * (train.min_lr_ratio + (1 - train.min_lr_ratio) * _share(train, step))


def _share(train: TrainConfig, step: int) -> float:
    """Of the way between the end (0) and the peak (1)."""
    if train.schedule == "constant":
        return 1.0
    falling = decay_steps(train) if train.schedule in LATE_FALL else train.steps - train.warmup_steps
    progress = max(0, step + 1 - (train.steps - falling)) / falling
    if train.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    return 1 - (math.sqrt(progress) if train.schedule == "one_minus_sqrt" else progress)


LATE_FALL = ("wsd", "one_minus_sqrt")
"""Schedules that stay at the peak until their last part."""


def decay_steps(train: TrainConfig) -> int:
    """Updates of the last part of a schedule in `LATE_FALL`, at least one."""
    return max(1, round(train.decay_fraction * train.steps))

"""Is the difference real? Plain functions over losses and deltas; no SQL and no torch.

A lower loss is better, and a delta is treatment minus control. Functions raise ValueError for input that makes
no sense; what the data cannot tell is None, with a `reason`.
"""

from .paired import PairedDelta, UnpairedDelta, paired_delta, welch_delta
from .student import Estimate, MeanEstimate, mean_estimate

__all__ = [
    "Estimate",
    "MeanEstimate",
    "PairedDelta",
    "UnpairedDelta",
    "mean_estimate",
    "paired_delta",
    "welch_delta",
]

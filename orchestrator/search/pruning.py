"""When a trial is given up: its first seed is behind the median of the trials before it."""

from collections.abc import Mapping, Sequence
from statistics import median

FEWEST = 5
"""Earlier trials that a median is taken over."""


def pruned_at(
    curve: Mapping[int, float], earlier: Sequence[Mapping[int, float]], first: int, last: int
) -> int | None:
    """The step at which a trial ends early; none where it goes on.

    `curve` is step to validation loss of its first seed, `earlier` those of the trials whose values were
    known when it was suggested, at the same seed: what the seed adds to all of them cancels. Steps before
    `first` say too little, since rates are still high, and from `last` on nothing is left to save. It depends
    on no trial that runs beside it, so it comes out alike whatever job is faster.
    """
    for step in sorted(curve):
        seen = [losses[step] for losses in earlier if step in losses]
        if first <= step < last and len(seen) >= FEWEST and curve[step] > median(seen):
            return step
    return None

"""When the last of many jobs ends, each taken by the slot that is free first."""

import heapq
from collections.abc import Iterable


def makespan(queued: Iterable[float], slots: Iterable[float]) -> float:
    """Seconds until the last job ends: of the `queued` ones in their order, on `slots` that are free so late.

    At least one slot is needed where a job is queued.
    """
    ends = list(slots)
    heapq.heapify(ends)
    last = max(ends, default=0.0)
    for seconds in queued:
        end = heapq.heappop(ends) + seconds
        last = max(last, end)
        heapq.heappush(ends, end)
    return last

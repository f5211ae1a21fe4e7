"""How long free slots wait for a job that is queued: what a scheduler can be slow at."""

from itertools import accumulate
from time import monotonic

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)
"""Seconds: the upper ends of the buckets; one more takes the rest."""


class Waits:
    """Seconds from the moment that a slot was free and a job queued to the job's dispatch, in buckets."""

    def __init__(self) -> None:
        self.sum = 0.0
        self._counts = [0] * (len(BOUNDS) + 1)
        self._nothing_queued_at = monotonic()

    def nothing_queued(self) -> None:
        """The queue was looked at just now, and nothing in it may begin: what is free waits for nothing."""
        self._nothing_queued_at = monotonic()

    def dispatched(self, free_since: float) -> None:
        """A slot that was free since then, by `time.monotonic`, has got a job."""
        seconds = monotonic() - max(free_since, self._nothing_queued_at)
        self.sum += seconds
        self._counts[sum(seconds > bound for bound in BOUNDS)] += 1

    def cumulative(self) -> list[tuple[str, int]]:
        """Upper bound of each bucket, as Prometheus writes it, and how many waits were not longer."""
        return list(zip((*map(str, BOUNDS), "+Inf"), accumulate(self._counts), strict=True))

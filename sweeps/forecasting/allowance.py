"""Which jobs a sweep may still begin: those that its budget holds, and that end before the sweep has to."""

from dataclasses import dataclass, replace
from math import inf


@dataclass(frozen=True)
class Allowance:
    """What may be begun now, in floating-point operations left of the jobs."""

    each: float
    """Of one job at most: what is done before the end."""
    together: float
    """Of all jobs at most: what the budget has left."""
    jobs: float = inf
    """Jobs at most."""

    def admits(self, flops: float) -> bool:
        """Whether a job with `flops` left may begin."""
        return self.jobs >= 1 and flops <= min(self.each, self.together)

    def less(self, flops: float) -> "Allowance":
        """What is allowed after a job with `flops` left has begun."""
        return replace(self, together=self.together - flops, jobs=self.jobs - 1)


def allowance(
    rate: float | None,
    running: int,
    *,
    seconds: float | None = None,
    slot_seconds: float | None = None,
) -> Allowance:
    """What a sweep may begin, at a `rate` of operations a second of one slot.

    `seconds` are left until its end, `slot_seconds` in its budget after what its `running` jobs still take;
    none for no bound. Before any rate is known one job may run, so that it becomes known.
    """
    if min(inf if bound is None else bound for bound in (seconds, slot_seconds)) <= 0:
        return Allowance(0, 0, 0)
    if rate is None:
        return Allowance(inf, inf, 0 if running else 1)
    return Allowance(
        each=inf if seconds is None else rate * seconds,
        together=inf if slot_seconds is None else rate * slot_seconds,
    )

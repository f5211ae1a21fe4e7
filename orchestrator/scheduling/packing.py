"""How many jobs a card holds at a time, by the memory that their like took."""

from collections.abc import Mapping

from headcount.orchestrator.scheduling.placement import PROCESSORS, Device
from headcount.orchestrator.scheduling.turns import Turn

GiB = 2**30

CONTEXT_BYTES = 1.0 * GiB
"""Set aside for each job beside its allocator's memory: CUDA's context, kernels and library handles."""

SPARE = 0.05
"""Part of a card that is left free: what is recorded is a peak of the past."""

MOST = 8
"""Jobs on a card at most."""


def jobs_on_a_card(peak: float | None, memory: float) -> int:
    """How many jobs of `peak` bytes each fit on a card of `memory` bytes: 1, 2, 4 or 8.

    One where the peak is not known yet, or the card's memory is not.
    """
    if peak is None or memory <= 0:
        return 1
    jobs = 1
    while jobs < MOST and 2 * jobs * (peak + CONTEXT_BYTES) <= (1 - SPARE) * memory:
        jobs *= 2
    return jobs


def share_on(turn: Turn, device: Device, peaks: Mapping[str, float]) -> float:
    """The part of a card that a job is given: as its sweep says, or by the recorded peaks of its kind.

    A share that does not go into 1 is rounded up to the next that does: 0.3 is a third.
    """
    need = turn.need
    if need.alone:
        return device.room if device.index == PROCESSORS else 1.0
    if need.share is not None:
        return 1.0 / int(1.0 / need.share + 1e-9)
    return 1.0 / jobs_on_a_card(peaks.get(need.kind), device.memory)

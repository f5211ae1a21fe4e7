"""What the cluster is asked to grow to: the slots at work and those that waiting jobs would fill at once."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headcount.orchestrator.scheduling.placement import Held
from headcount.orchestrator.scheduling.turns import Turn

ACCELERATOR_LABEL = "ray.io/accelerator-type"

MOST_BUNDLES = 1000
"""Slots that are asked for at a time."""


@dataclass(frozen=True)
class Demand:
    """Bundles of resources with the labels that their nodes must have, as Ray's autoscaler takes them."""

    bundles: tuple[tuple[str, float], ...] = ()
    """The resource and its amount, a bundle each."""
    accelerators: tuple[str | None, ...] = ()
    """The kind of card of each bundle's node; none for any."""

    def as_request(self) -> dict[str, Any]:
        """The arguments of `ray.autoscaler.sdk.request_resources`; without demand, its withdrawal."""
        if not self.bundles:
            return {"num_cpus": 0}
        request: dict[str, Any] = {"bundles": [{name: amount} for name, amount in self.bundles]}
        if any(self.accelerators):
            request["bundle_label_selectors"] = [
                {ACCELERATOR_LABEL: kind} if kind else {} for kind in self.accelerators
            ]
        return request


def demand(waiting: Iterable[Turn], busy: Sequence[Held], with_gpus: bool) -> Demand:
    """The demand of jobs that wait, as far as their sweeps may begin them, beside the slots at work.

    The request stands for the whole cluster, so that what is at work belongs to it: without it, a node at
    work could be taken for one that is not needed.
    """
    bundles: list[tuple[str, float]] = []
    kinds: list[str | None] = []
    for slot in busy:
        bundles.append(("GPU", round(slot.share * len(slot.cards), 4)) if with_gpus else ("CPU", 1.0))
        kinds.append(None)
    for turn in waiting:
        if len(bundles) >= MOST_BUNDLES:
            break
        amount = turn.need.share if turn.need.share is not None else 1.0
        wants_gpu = with_gpus or turn.need.accelerator is not None
        bundles.append(("GPU", round(amount * turn.need.gpus, 4)) if wants_gpu else ("CPU", 1.0))
        kinds.append(turn.need.accelerator)
    return Demand(tuple(bundles), tuple(kinds))


def beyond_maximum(turn: Turn, maximum: dict[str, float] | None, with_gpus: bool) -> str | None:
    """Why no node that the cluster may ever have holds the job; none where one may, or nobody knows.

    `maximum` is what its largest node has of each resource.
    """
    if maximum is None or not with_gpus:
        return None
    gpus = maximum.get("GPU", 0.0)
    if turn.need.gpus <= gpus:
        return None
    return (
        f"it needs {turn.need.gpus} GPUs on one node, and no node of the cluster may have more than {gpus:g}"
    )

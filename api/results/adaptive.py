"""How cells are reported that a sweep added to itself, or added seeds to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Sweep, Trial
from headcount.sweeps.file.adaptive import SeedRule
from headcount.sweeps.statistics import PairedDelta, paired_delta, plan_seeds, stein_delta


@dataclass(frozen=True)
class Adaptive:
    """What of a sweep's file and search decides how its cells are reported; nothing of a plain grid's."""

    fresh: frozenset[int] = frozenset()
    """Seeds that no trial had: the best of a search has them, and is reported on them alone."""
    rule: SeedRule | None = None
    pruned: Mapping[int, int] = field(default_factory=dict)
    """Cells whose trial was given up, to the step."""


def adaptive_of(session: Session, sweep: Sweep) -> Adaptive:
    """Of a sweep already found."""
    asked = sweep.adaptive or {}
    if rule := asked.get("seed_rule"):
        return Adaptive(rule=SeedRule(**rule))
    search = asked.get("search")
    if not search:
        return Adaptive()
    first = max(sweep.seeds) + 1
    pruned = select(Trial.cell_id, Trial.step).where(Trial.sweep_id == sweep.id, Trial.state == "pruned")
    return Adaptive(
        fresh=frozenset(range(first, first + search["fresh_seeds"])),
        pruned={c: step for c, step in session.execute(pruned) if c is not None and step is not None},
    )


def first_stage(first_seeds: int | None, seeds: Sequence[int]) -> int | None:
    """How many of these seeds are among the first ones of a rule; None without a rule."""
    return None if first_seeds is None else sum(seed < first_seeds for seed in seeds)


def staged_delta(
    treatment: Mapping[int, float], control: Mapping[int, float], first_seeds: int | None
) -> PairedDelta:
    """The paired delta; where a rule added seeds to its `first_seeds`, with the error of those alone."""
    delta = paired_delta(treatment, control)
    if first_seeds is None or delta.seeds[:first_seeds] != tuple(range(first_seeds)):
        return delta
    return stein_delta(delta, first_seeds)


def by_rule(delta: PairedDelta, rule: SeedRule) -> tuple[PairedDelta, str | None]:
    """The delta with the interval that the rule promises; and why it is undecided, if it is.

    Until all first seeds are known the delta stays as it is: no seed was added to it yet.
    """
    first = range(rule.start)
    if delta.seeds[: rule.start] != tuple(first):
        return delta, None
    planned = plan_seeds(delta.deltas[: rule.start], rule.half_width, rule.max)
    undecided = None
    if planned.wanted > rule.max:
        undecided = (
            f"undecided: ± {planned.reached:.2g} with {rule.max} seeds, where ± {rule.half_width:g} takes "
            f"{planned.wanted}"
        )
    return stein_delta(delta, rule.start), undecided

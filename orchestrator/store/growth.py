"""What an adaptive sweep has beyond its file's grid: read for a plan, and added to while it runs."""

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.journal import announce_sweep
from headcount.orchestrator.store.models import Cell, Dataset, Job, Sweep, SweepJob, Trial
from headcount.sweeps.planning.growth import Growth, cell_key, plain
from headcount.trainer.config import DataConfig
from headcount.trainer.data.manifest import Manifest

if TYPE_CHECKING:
    from headcount.sweeps.file.spec import SweepSpec
    from headcount.sweeps.planning.plan import Plan


def growth_of(session: Session, spec: "SweepSpec") -> Growth:
    """What the sweep of that name was given beside its grid, as far as it fits what `spec` now asks."""
    sweep = session.scalar(select(Sweep).where(Sweep.name == spec.name))
    if sweep is None or not spec.is_adaptive:
        return Growth()
    from headcount.sweeps.planning.plan import points_at

    trials = fitting_trials(session, sweep.id, spec)
    points: tuple[dict[str, Any], ...] = ()
    if spec.search is not None:
        points = tuple(trial.settings for trial in trials if trial.state != "skipped")
    elif spec.refine is not None:
        points = points_at(spec, _values_found(session, sweep, spec, spec.refine))
    pruned = {trial.cell_id for trial in trials if trial.state == "pruned"}
    cells = session.scalars(select(Cell).where(Cell.id.in_(pruned)))
    # after an edit the best cell of a search may be another one: its fresh seeds are asked for anew
    keeps_seeds = spec.seed_rule is not None or (spec.search is not None and sweep.yaml == spec.text)
    return Growth(
        points=points,
        seeds=_seeds_found(session, sweep, spec) if keeps_seeds else {},
        pruned=frozenset(cell_key(False, cell.settings) for cell in cells),
        is_over=sweep.growth == "over" and sweep.yaml == spec.text,
    )


def fitting_trials(session: Session, sweep_id: int, spec: "SweepSpec") -> list[Trial]:
    """The search's trials in the order of their numbers, less those outside of what is searched now."""
    trials = session.scalars(select(Trial).where(Trial.sweep_id == sweep_id).order_by(Trial.number))
    return [trial for trial in trials if _fits(spec, trial.settings)]


def drop_trials_that_do_not_fit(session: Session, sweep_id: int, spec: "SweepSpec") -> None:
    """After an edit of the file: the trials that still fit are numbered and valued anew."""
    kept = fitting_trials(session, sweep_id, spec) if spec.search is not None else []
    rows = [
        {"settings": t.settings, "cell_id": t.cell_id, "step": t.step, "value": t.value, "state": t.state}
        for t in kept
    ]
    session.execute(delete(Trial).where(Trial.sweep_id == sweep_id))
    session.expire_all()
    for number, row in enumerate(rows):
        if row["state"] in ("complete", "failed"):
            row |= {"state": "open", "value": None}
        session.add(Trial(sweep_id=sweep_id, number=number, **row))
    session.flush()


def texts_of(plan: "Plan") -> list[list[Any]] | None:
    """What the scheduler prepares no text for: the fingerprint of every text that an adaptive sweep names."""
    if not plan.spec.is_adaptive:
        return None
    return [[plain(asdict(data)), manifest.fingerprint] for data, manifest in plan.texts.items()]


def grown_plan(session: Session, sweep: Sweep, spec: "SweepSpec", growth: Growth) -> "Plan":
    """The sweep's plan with what `growth` adds, by the texts as they were when it was submitted."""
    from headcount.sweeps.planning.plan import plan

    texts: dict[DataConfig, Manifest] = {}
    for values, fingerprint in sweep.texts or ():
        data = DataConfig(**{**values, "text": tuple(values["text"])})
        texts[data] = Manifest.from_json(json.dumps(session.get_one(Dataset, fingerprint).manifest))
    return plan(spec, texts.__getitem__, growth)


def stop_growing(session: Session, sweep: Sweep, state: str, note: str | None = None) -> None:
    """Add nothing more: `over` where all is there, `stopped` for a reason that `note` tells."""
    sweep.growth, sweep.growth_note = state, note
    session.flush()
    announce_sweep(session, sweep.id, "complete", **({"why": note} if note else {}))


def change_growth(session: Session, sweep_id: int, before: Collection[str], after: str) -> bool:
    """Where the sweep's growth is in one of the states `before`, put it into `after`; whether it was."""
    changed = session.execute(
        update(Sweep).where(Sweep.id == sweep_id, Sweep.growth.in_(before)).values(growth=after)
    )
    return bool(changed.rowcount)  # type: ignore[attr-defined]


def trials_so_far(session: Session, sweep_id: int) -> int:
    """How many suggestions the sweep's search has made."""
    return session.scalar(select(func.count()).where(Trial.sweep_id == sweep_id)) or 0


def _fits(spec: "SweepSpec", settings: Mapping[str, Any]) -> bool:
    if settings.keys() != spec.axes.keys():
        return False
    return all(
        spec.ranges[axis].low <= value <= spec.ranges[axis].high
        if axis in spec.ranges
        else value in spec.axes[axis]
        for axis, value in settings.items()
    )


def _values_found(session: Session, sweep: Sweep, spec: "SweepSpec", axis: str) -> list[float]:
    """Values of a refined axis that cells have and the file does not list, ascending."""
    settings = session.scalars(select(Cell.settings).where(Cell.sweep_id == sweep.id))
    found = {values[axis] for values in settings if axis in values} - set(spec.axes[axis])
    return sorted(value for value in found if min(spec.axes[axis]) < value < max(spec.axes[axis]))


def _seeds_found(session: Session, sweep: Sweep, spec: "SweepSpec") -> dict[str, tuple[int, ...]]:
    """Seeds that cells have beside the file's, by `cell_key`."""
    query = (
        select(Cell.is_control, Cell.settings, Job.seed)
        .join(SweepJob, SweepJob.cell_id == Cell.id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(Cell.sweep_id == sweep.id, Job.seed.not_in(spec.seeds))
        .order_by(Job.seed)
    )
    most = spec.seed_rule.max if spec.seed_rule is not None else None
    found: dict[str, list[int]] = defaultdict(list)
    for is_control, settings, seed in session.execute(query):
        if most is None or seed < most:
            found[cell_key(is_control, settings)].append(seed)
    return {key: tuple(seeds) for key, seeds in found.items()}

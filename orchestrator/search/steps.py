"""One step of a sweep that adds to itself, in a write of the store: as far as its results now allow."""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from headcount.orchestrator.search.suggesting import PastTrial
from headcount.orchestrator.search.trials import add_trial, best_trial, penalty, settle_trials
from headcount.orchestrator.store.growth import fitting_trials, grown_plan, growth_of, stop_growing
from headcount.orchestrator.store.models import SETTLED_STATES, Cell, Job, Sweep, SweepJob
from headcount.orchestrator.store.submission import extend
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.planning.growth import cell_key
from headcount.sweeps.planning.plan import points_at
from headcount.sweeps.planning.refining import refined_values
from headcount.sweeps.planning.seed_addition import Pair, seeds_wanted


def search_step(
    session: Session, sweep: Sweep, spec: SweepSpec, suggested: Mapping[str, Any] | None
) -> list[PastTrial] | None:
    """Take in a suggestion, value what has ended; the trials to suggest the next by, none where it waits."""
    assert spec.search is not None
    if suggested is not None:
        add_trial(session, sweep, spec, suggested)
    past = settle_trials(session, sweep, spec)
    # the next may know of all but the last ones; before those have their values it would be another one
    known = max(0, len(past) - spec.search.parallel + 1)
    if any(trial.is_open for trial in past[:known]):
        return None
    if len(past) < spec.search.trials:
        return past
    if not any(trial.is_open for trial in past):
        _train_best_again(session, sweep, spec)
    return None


def _train_best_again(session: Session, sweep: Sweep, spec: SweepSpec) -> None:
    """The best cell and its control at seeds that chose nothing: the lowest of many losses was also lucky."""
    assert spec.search is not None
    best = best_trial(fitting_trials(session, sweep.id, spec), penalty(session, sweep))
    if best is None:
        stop_growing(session, sweep, "stopped", "no trial has a loss: all diverged, failed or were skipped")
        return
    growth = growth_of(session, spec)
    cell = grown_plan(session, sweep, spec, growth).cell_of(best.settings)
    assert cell is not None
    seeds = dict(growth.seeds)
    for key in _with_control(session, sweep, cell_key(cell.is_control, cell.settings)):
        seeds[key] = fresh_seeds(spec)
    extend(session, sweep, grown_plan(session, sweep, spec, replace(growth, seeds=seeds)))
    stop_growing(session, sweep, "over")


def fresh_seeds(spec: SweepSpec) -> tuple[int, ...]:
    """Seeds that no trial had."""
    assert spec.search is not None
    first = max(spec.seeds) + 1
    return tuple(range(first, first + spec.search.fresh_seeds))


def refine_step(session: Session, sweep: Sweep, spec: SweepSpec) -> None:
    """Ask for the values between the best and its neighbours, of every method, until no round is left."""
    assert spec.refine is not None
    listed = spec.axes[spec.refine]
    methods = _losses_by_method(session, sweep, spec.refine, len(spec.seeds))
    values = refined_values(methods, listed)
    growth = growth_of(session, spec)
    if set(values) - {settings[spec.refine] for settings in growth.points}:
        plan = grown_plan(session, sweep, spec, replace(growth, points=points_at(spec, values)))
        extend(session, sweep, plan)
    elif all(value in losses for losses in methods for value in (*listed, *values)):
        stop_growing(session, sweep, "over")


def seeds_step(session: Session, sweep: Sweep, spec: SweepSpec) -> None:
    """Ask for the seeds that Stein's rule wants of each pair whose first seeds have ended."""
    assert spec.seed_rule is not None
    pairs, settled = _pairs(session, sweep, spec)
    cells = {cell.id: cell for cell in session.scalars(select(Cell).where(Cell.sweep_id == sweep.id))}
    growth = growth_of(session, spec)
    seeds = dict(growth.seeds)
    for cell_id, total in seeds_wanted(pairs, spec.seed_rule, spec.analysis).items():
        key = cell_key(cells[cell_id].is_control, cells[cell_id].settings)
        wanted = range(spec.seed_rule.start, total)
        seeds[key] = tuple(sorted({*wanted, *seeds.get(key, ())}))
    if any(added and added != growth.seeds.get(key) for key, added in seeds.items()):
        extend(session, sweep, grown_plan(session, sweep, spec, replace(growth, seeds=seeds)))
    if settled:
        stop_growing(session, sweep, "over")


def _with_control(session: Session, sweep: Sweep, key: str) -> list[str]:
    """The keys of a cell and of its control, where it has one."""
    for cell in session.scalars(select(Cell).where(Cell.sweep_id == sweep.id)):
        if cell_key(cell.is_control, cell.settings) == key and cell.control_id is not None:
            control = session.get_one(Cell, cell.control_id)
            return [key, cell_key(control.is_control, control.settings)]
    return [key]


def _losses_by_method(session: Session, sweep: Sweep, axis: str, seeds: int) -> list[dict[float, float]]:
    """For each method, value of the axis to mean loss, once all seeds of the cell have ended.

    Infinite where a seed diverged or failed, and where the file skips the cell.
    """
    query = (
        select(Cell, Job.state, Job.tail_mean)
        .join(SweepJob, SweepJob.cell_id == Cell.id)
        .join(Job, Job.id == SweepJob.job_id)
        .where(Cell.sweep_id == sweep.id, Job.seed.in_(sweep.seeds))
    )
    ended: dict[tuple[str, float], list[float]] = defaultdict(list)
    methods: dict[str, set[float]] = defaultdict(set)
    for cell, state, loss in session.execute(query):
        if axis not in cell.settings:
            continue
        others = {name: value for name, value in cell.settings.items() if name != axis}
        method = cell_key(cell.is_control, others)
        methods[method].add(cell.settings[axis])
        if state in SETTLED_STATES:
            ended[method, cell.settings[axis]].append(math.inf if loss is None else loss)
    values = set().union(*methods.values())
    return [
        {
            value: math.fsum(ended[method, value]) / seeds
            for value in has
            if len(ended[method, value]) == seeds
        }
        | dict.fromkeys(values - has, math.inf)  # skipped
        for method, has in methods.items()
    ]


def _pairs(session: Session, sweep: Sweep, spec: SweepSpec) -> tuple[list[Pair], bool]:
    """Every treatment with its control and their first deltas, and whether all first jobs have ended."""
    assert spec.seed_rule is not None
    control = aliased(Job)
    query = (
        select(Cell, Job.seed, Job.state, Job.tail_mean, control.state, control.tail_mean)
        .join(SweepJob, SweepJob.cell_id == Cell.id)
        .join(Job, Job.id == SweepJob.job_id)
        .outerjoin(control, control.id == SweepJob.control_job_id)
        .where(Cell.sweep_id == sweep.id, Job.seed < spec.seed_rule.start)
    )
    deltas: dict[int, dict[int, float]] = defaultdict(dict)
    cells: dict[int, Cell] = {}
    settled = True
    for cell, seed, state, loss, control_state, control_loss in session.execute(query):
        settled &= state in SETTLED_STATES and (control_state is None or control_state in SETTLED_STATES)
        if cell.control_id is not None:
            cells[cell.id] = cell
            if loss is not None and control_loss is not None:
                deltas[cell.id][seed] = loss - control_loss
    pairs = [
        Pair(cell.id, cell.control_id, cell.settings, deltas[cell.id])
        for cell in cells.values()
        if cell.control_id is not None
    ]
    return pairs, settled

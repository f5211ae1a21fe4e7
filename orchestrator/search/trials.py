"""The trials of a search in the store: added, valued as their jobs end, given up; and the best of them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session, aliased

from headcount.orchestrator.search.pruning import pruned_at
from headcount.orchestrator.search.suggesting import PastTrial
from headcount.orchestrator.store.growth import fitting_trials, grown_plan, growth_of
from headcount.orchestrator.store.models import (
    SETTLED_STATES,
    Dataset,
    Evaluation,
    Job,
    Sweep,
    SweepJob,
    Trial,
)
from headcount.orchestrator.store.submission import extend
from headcount.orchestrator.store.wishes import withdraw
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.planning.plan import is_trainable


class SeedJob(NamedTuple):
    """One job of a trial's cell, with its control's."""

    state: str
    loss: float | None
    control_state: str | None
    control_loss: float | None
    job_id: str
    steps: int


def add_trial(session: Session, sweep: Sweep, spec: SweepSpec, settings: Mapping[str, Any]) -> Trial:
    """Store a suggestion, and want its jobs, those that are known already at no cost.

    A point that is skipped or breaks a rule of the trainer costs nothing, and is told a penalty.
    """
    before = fitting_trials(session, sweep.id, spec)
    trial = Trial(sweep_id=sweep.id, number=len(before), settings=dict(settings), state="open")
    session.add(trial)
    if not is_trainable(spec, settings):
        trial.state, trial.value = "skipped", penalty(session, sweep)
        session.flush()
        return trial
    session.flush()
    plan = grown_plan(session, sweep, spec, growth_of(session, spec))
    cell = plan.cell_of(settings)
    assert cell is not None
    trial.cell_id = extend(session, sweep, plan)[cell.position]
    session.flush()
    for same in before:
        if same.cell_id == trial.cell_id and same.state == "pruned":
            trial.state, trial.value, trial.step = same.state, same.value, same.step
    return trial


def settle_trials(session: Session, sweep: Sweep, spec: SweepSpec) -> list[PastTrial]:
    """Give every open trial its value whose jobs have ended, and give up those that fall behind.

    A trial with a diverged seed is told a penalty; one with a failed seed fails, and tells nothing.
    """
    assert spec.search is not None
    trials = fitting_trials(session, sweep.id, spec)
    jobs = _jobs_of(session, sweep.id, spec.seeds)
    curves = _curves(session, trials, jobs, spec) if spec.search.prune else [{} for _ in trials]
    given_up = False
    for number, trial in enumerate(trials):
        if trial.state != "open" or trial.cell_id is None:
            continue
        known = max(0, number - spec.search.parallel + 1)
        step = _pruned_at(spec, jobs[trial.cell_id], curves[number], curves[:known])
        if step is not None:
            trial.state, trial.value, trial.step = "pruned", curves[number][step], step
            given_up = True
            continue
        trial.state, trial.value = _outcome(spec, jobs[trial.cell_id], penalty(session, sweep))
    session.flush()
    if given_up:
        plan = grown_plan(session, sweep, spec, growth_of(session, spec))
        withdraw(session, sweep.id, {job.id for job in plan.jobs if not job.is_wanted})
    return [PastTrial(trial.settings, trial.value, trial.state == "open", trial.step) for trial in trials]


def best_trial(trials: Sequence[Trial], worst: float) -> Trial | None:
    """The complete trial of the lowest value below `worst`, the penalty; the earlier of equals."""
    complete = [t for t in trials if t.state == "complete" and t.value is not None and t.value < worst]
    return min(complete, key=lambda trial: (trial.value, trial.number), default=None)


def penalty(session: Session, sweep: Sweep) -> float:
    """Nats: twice what a guess among all tokens costs, which no loss of a job that trains comes near."""
    assert sweep.texts
    dataset = session.get_one(Dataset, sweep.texts[0][1])
    return 2 * math.log(dataset.manifest["vocab_size"])


def _outcome(spec: SweepSpec, jobs: Sequence[SeedJob], worst: float) -> tuple[str, float | None]:
    """State and value of a trial, by the jobs of its cell."""
    assert spec.search is not None
    is_delta = spec.search.objective == "delta"
    states = [state for job in jobs for state in (job.state, *((job.control_state,) if is_delta else ()))]
    if any(state not in SETTLED_STATES for state in states):
        return "open", None
    if any(state in ("failed", "cancelled") for state in states):
        return "failed", None
    losses = [
        None if job.loss is None else job.loss - (job.control_loss or 0.0) if is_delta else job.loss
        for job in jobs
    ]
    if "diverged" in states or any(loss is None or not math.isfinite(loss) for loss in losses):
        return "complete", worst
    return "complete", math.fsum(loss for loss in losses if loss is not None) / len(losses)


def _jobs_of(session: Session, sweep_id: int, seeds: Sequence[int]) -> dict[int, list[SeedJob]]:
    """The jobs at the search's seeds, by the row of their cell, in the order of their seeds."""
    control = aliased(Job)
    steps = Job.config["train.steps"].as_integer()
    query = (
        select(
            *(SweepJob.cell_id, Job.seed),
            *(Job.state, Job.tail_mean, control.state, control.tail_mean, Job.id, steps),
        )
        .join(Job, Job.id == SweepJob.job_id)
        .outerjoin(control, control.id == SweepJob.control_job_id)
        .where(SweepJob.sweep_id == sweep_id, Job.seed.in_(seeds))
    )
    rows = session.execute(query).all()
    found: dict[int, list[SeedJob]] = defaultdict(list)
    for cell, _, *job in sorted(rows, key=lambda row: seeds.index(row[1])):
        found[cell].append(SeedJob(*job))
    return found


def _curves(
    session: Session, trials: Sequence[Trial], jobs: Mapping[int, Sequence[SeedJob]], spec: SweepSpec
) -> list[dict[int, float]]:
    """Step to loss of each trial's first seed, as far as it was evaluated."""
    firsts = {cell: its_jobs[0].job_id for cell, its_jobs in jobs.items()}
    query = select(Evaluation.job_id, Evaluation.step, Evaluation.loss)
    found: dict[str, dict[int, float]] = defaultdict(dict)
    for job_id, step, loss in session.execute(query.where(Evaluation.job_id.in_(firsts.values()))):
        found[job_id][step] = math.inf if loss is None else loss
    return [found[firsts[cell]] if (cell := trial.cell_id) in firsts else {} for trial in trials]


def _pruned_at(
    spec: SweepSpec,
    jobs: Sequence[SeedJob],
    curve: Mapping[int, float],
    earlier: Sequence[Mapping[int, float]],
) -> int | None:
    assert spec.search is not None
    if not spec.search.prune or jobs[0].state in ("diverged", "failed"):
        return None
    return pruned_at(curve, earlier, jobs[0].steps // 2, jobs[0].steps)

"""How far a sweep is that adds to itself, and what it found, in lines for people."""

from collections import Counter
from collections.abc import Iterator, Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.following.live import cell_words
from headcount.orchestrator.search.growing import spec_of
from headcount.orchestrator.search.steps import fresh_seeds
from headcount.orchestrator.search.trials import best_trial, penalty
from headcount.orchestrator.store.growth import fitting_trials
from headcount.orchestrator.store.models import Cell, Job, Sweep, SweepJob
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.rendering import counted
from headcount.sweeps.statistics import mean_estimate, paired_delta


def growth_words(session: Session, sweep: Sweep) -> Iterator[str]:
    """Nothing of a sweep that is a plain grid."""
    if sweep.growth is None:
        return
    spec = spec_of(sweep)
    if spec.search is not None:
        yield from _search_words(session, sweep, spec)
    elif spec.refine is not None:
        found = len(sweep.axes[spec.refine]) - len(spec.axes[spec.refine])
        goes_on = "; more may come" if sweep.growth in ("growing", "held") else ""
        yield f"Refined: {counted(found, 'value')} of {spec.refine} beside those listed{goes_on}"
    elif spec.seed_rule is not None:
        yield from _seed_words(session, sweep, spec)
    if sweep.growth_note:
        yield f"Nothing more is added: {sweep.growth_note}"


def _search_words(session: Session, sweep: Sweep, spec: SweepSpec) -> Iterator[str]:
    assert spec.search is not None
    trials = fitting_trials(session, sweep.id, spec)
    counts = Counter(trial.state for trial in trials)
    reused = len([t for t in trials if t.cell_id]) - len({t.cell_id for t in trials if t.cell_id})
    states = [f"{counts[state]} {state}" for state in ("pruned", "skipped", "failed") if counts[state]]
    states += [f"{reused} of cells that were there already"] if reused else []
    words = "".join(f", {state}" for state in states)
    yield f"Search by {spec.search.method}: {len(trials)} of {spec.search.trials} trials{words}"
    best = best_trial(trials, penalty(session, sweep))
    if best is None or best.cell_id is None:
        return
    yield (
        f"Best trial: {cell_words(best.settings)}, {spec.search.objective} {best.value:.4f}, "
        "the lowest of many and so too low"
    )
    if sweep.growth == "over" and spec.search.fresh_seeds:
        yield from _fresh_words(session, session.get_one(Cell, best.cell_id), spec)


def _fresh_words(session: Session, cell: Cell, spec: SweepSpec) -> Iterator[str]:
    """The best cell on seeds that chose nothing."""
    fresh = fresh_seeds(spec)
    losses = _losses(session, cell.id)
    ours = {seed: losses[seed] for seed in fresh if seed in losses}
    if len(ours) < len(fresh):
        yield f"On fresh seeds: {len(ours)} of {len(fresh)} jobs have ended with a loss"
        return
    estimate = mean_estimate(list(ours.values()))
    words = f"On {counted(len(ours), 'fresh seed')}: loss {estimate.mean:.4f}"
    if cell.control_id is not None:
        delta = paired_delta(ours, _losses(session, cell.control_id))
        if delta.mean is not None:
            words += f", delta {delta.mean:+.4f}"
        if delta.low is not None and delta.high is not None:
            words += f" ({delta.low:+.4f} to {delta.high:+.4f})"
    yield words


def _seed_words(session: Session, sweep: Sweep, spec: SweepSpec) -> Iterator[str]:
    assert spec.seed_rule is not None
    query = select(SweepJob.cell_id).where(SweepJob.sweep_id == sweep.id)
    counts = sorted(Counter(session.scalars(query)).values())
    if counts:
        rule = spec.seed_rule
        yield (
            f"Seeds by a rule: from {counts[0]} to {counts[-1]} a cell, of {rule.start} to {rule.max}, for "
            f"intervals of ± {rule.half_width:g}"
        )


def _losses(session: Session, cell_id: int) -> Mapping[int, float]:
    query = select(Job.seed, Job.tail_mean).join(SweepJob, SweepJob.job_id == Job.id)
    rows = session.execute(query.where(SweepJob.cell_id == cell_id, Job.tail_mean.is_not(None))).all()
    return {seed: loss for seed, loss in rows if loss is not None}

"""Validation loss by step of chosen cells: every seed's, and their mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep
from headcount.api.results.losses import finite
from headcount.orchestrator.store.models import Evaluation, Job, SweepJob


@dataclass(frozen=True)
class CellCurve:
    """One cell's evaluations. Steps that not every seed has come to have no mean."""

    cell: int
    seeds: tuple[int, ...]
    """Those with an evaluation."""
    steps: tuple[int, ...]
    losses: tuple[tuple[float | None, ...], ...]
    """By seed and step, nats a token; None where a seed has none, or one that was not finite."""
    mean: tuple[float | None, ...]


def cell_curves(session: Session, sweep: str, cells: Sequence[int]) -> dict[int, CellCurve]:
    """The curves of those of `cells` that have an evaluation, by cell. Raises `NotFoundError`."""
    query = (
        select(SweepJob.cell_id, Job.seed, Evaluation.step, Evaluation.loss)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Evaluation, Evaluation.job_id == Job.id)
        .where(SweepJob.sweep_id == find_sweep(session, sweep).id, SweepJob.cell_id.in_(cells))
    )
    found: dict[int, dict[int, dict[int, float | None]]] = {}
    for cell, seed, step, loss in session.execute(query):
        found.setdefault(cell, {}).setdefault(seed, {})[step] = finite(loss)
    return {cell: _curve(cell, by_seed) for cell, by_seed in found.items()}


def _curve(cell: int, by_seed: dict[int, dict[int, float | None]]) -> CellCurve:
    seeds = tuple(sorted(by_seed))
    steps = tuple(sorted({step for losses in by_seed.values() for step in losses}))
    losses = tuple(tuple(by_seed[seed].get(step) for step in steps) for seed in seeds)
    return CellCurve(cell, seeds, steps, losses, tuple(_mean(at) for at in zip(*losses, strict=True)))


def _mean(losses: Sequence[float | None]) -> float | None:
    known = [loss for loss in losses if loss is not None]
    return fsum(known) / len(known) if known and len(known) == len(losses) else None


def delta_curve(treatment: CellCurve, control: CellCurve) -> CellCurve:
    """Treatment minus control at each step, of the seeds and steps that both have."""
    seeds = tuple(seed for seed in treatment.seeds if seed in control.seeds)
    steps = tuple(step for step in treatment.steps if step in set(control.steps))
    losses = []
    for seed in seeds:
        ours = dict(zip(treatment.steps, treatment.losses[treatment.seeds.index(seed)], strict=True))
        theirs = dict(zip(control.steps, control.losses[control.seeds.index(seed)], strict=True))
        pairs = [(ours[step], theirs[step]) for step in steps]
        losses.append(tuple(None if a is None or b is None else a - b for a, b in pairs))
    mean = tuple(_mean(at) for at in zip(*losses, strict=True)) if seeds else ()
    return CellCurve(treatment.cell, seeds, steps if seeds else (), tuple(losses), mean)

"""Training loss by step of chosen cells, in bins: jobs tell it once a second or so, each at its own steps."""

from collections.abc import Sequence
from math import fsum

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.api.results.cell_curves import CellCurve
from headcount.api.results.lookup import find_sweep
from headcount.api.results.losses import finite
from headcount.orchestrator.store.models import Job, Progress, SweepJob

BINS = 100


def training_curves(session: Session, sweep: str, cells: Sequence[int]) -> dict[int, CellCurve]:
    """The curves of those of `cells` that have told any: the mean loss of each bin, at its middle step.

    All cells share the bins: `BINS` of equal width, or one for each step where fewer steps were told. Raises
    `NotFoundError`.
    """
    of_cells = (SweepJob.sweep_id == find_sweep(session, sweep).id, SweepJob.cell_id.in_(cells))
    told = select(Progress).join(SweepJob, SweepJob.job_id == Progress.job_id).where(*of_cells)
    last, steps = session.execute(
        told.with_only_columns(func.max(Progress.step), func.count(Progress.step.distinct()))
    ).one()
    if not last:
        return {}
    width = 1 if steps <= BINS else -(-(last + 1) // BINS)
    bin_ = (Progress.step // width).label("bin")
    rows = session.execute(
        told.join(Job, Job.id == Progress.job_id)
        .with_only_columns(SweepJob.cell_id, Job.seed, bin_, func.avg(Progress.loss))
        .group_by(SweepJob.cell_id, Job.seed, "bin")
    )
    found: dict[int, dict[int, dict[int, float | None]]] = {}
    for cell, seed, at, loss in rows:
        found.setdefault(cell, {}).setdefault(seed, {})[int(at)] = finite(loss)
    return {cell: _curve(cell, by_seed, width) for cell, by_seed in found.items()}


def _curve(cell: int, by_seed: dict[int, dict[int, float | None]], width: int) -> CellCurve:
    bins = sorted(set().union(*by_seed.values()))
    seeds = tuple(sorted(by_seed))
    losses = tuple(tuple(by_seed[seed].get(at) for at in bins) for seed in seeds)
    known = [[loss for loss in at if loss is not None] for at in zip(*losses, strict=True)]
    mean = tuple(fsum(at) / len(at) if len(at) == len(seeds) else None for at in known)
    return CellCurve(cell, seeds, tuple(at * width + width // 2 for at in bins), losses, mean)

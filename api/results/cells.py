"""Cells: the losses of one setting over its seeds, and what is missing of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import isfinite
from operator import itemgetter
from typing import Any, Literal

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from headcount.api.results.adaptive import Adaptive, adaptive_of
from headcount.api.results.lookup import NotFoundError, find_sweep
from headcount.orchestrator.store.models import Cell, Job, Sweep, SweepJob
from headcount.sweeps.file.adaptive import SeedRule

TRAINED = ("train", "external")
"""Kinds of jobs whose result is a loss of their cell."""

CellState = Literal["done", "running", "missing", "diverged", "failed"]


@dataclass(frozen=True)
class SeedResult:
    """One job of a cell."""

    seed: int
    job_id: str
    state: str
    tail_mean: float | None
    """None until finished, and where it was not a finite number."""
    diverged_step: int | None


@dataclass(frozen=True)
class CellView:
    """One setting of the sweep's axes, with the result of every seed."""

    id: int
    position: int
    settings: dict[str, Any]
    """Axis name to this cell's value; an axis that its residual stream does not read is left out."""
    is_control: bool
    control_id: int | None
    """The cell it is paired with, seed by seed."""
    parameters: int | None
    flops: float | None
    """Of one job."""
    results: tuple[SeedResult, ...]
    """One a seed, in the order of the seeds."""
    state: CellState
    """The first that holds: a seed diverged, a seed failed, a job runs, a seed is missing, all done."""
    seeds_missing: tuple[int, ...]
    """Planned seeds without a result and without a failure: not run yet, or cancelled."""
    external: bool
    """Trained elsewhere and imported: its jobs cannot be trained again here."""
    fresh_seeds: tuple[int, ...] = ()
    """Of the best cell of a search, the seeds that had no part in choosing it; none for others."""
    seed_rule: SeedRule | None = None
    """By which seeds were added to it."""
    pruned_step: int | None = None
    """At which a search gave it up."""

    @cached_property
    def losses(self) -> dict[int, float]:
        """Seed to tail mean, of every finished job; of the best cell of a search at its fresh seeds alone."""
        return {
            r.seed: r.tail_mean
            for r in self.results
            if r.tail_mean is not None and (not self.fresh_seeds or r.seed in self.fresh_seeds)
        }

    @cached_property
    def common_losses(self) -> dict[int, float]:
        """As `losses`, but of the best cell of a search at the seeds that every cell has, for its rank."""
        return {
            r.seed: r.tail_mean
            for r in self.results
            if r.tail_mean is not None and r.seed not in self.fresh_seeds
        }

    def seeds_in(self, *states: str) -> tuple[int, ...]:
        """The seeds whose job is in one of these states."""
        return tuple(r.seed for r in self.results if r.state in states)


def cells(session: Session, name: str) -> tuple[CellView, ...]:
    """The cells of a sweep in the order of its plan, controls among them. Raises `NotFoundError`."""
    return cells_of(session, find_sweep(session, name))


def cell_view(session: Session, name: str, cell_id: int) -> CellView:
    """One cell of a sweep. Raises `NotFoundError`."""
    sweep = find_sweep(session, name)
    found = cells_of(session, sweep, cell_id)
    if not found:
        raise NotFoundError(f"sweep {name!r} has no cell {cell_id}")
    return found[0]


_JOBS = select(
    SweepJob.cell_id,
    Job.seed,
    Job.id,
    Job.kind,
    Job.state,
    Job.tail_mean,
    Job.diverged_step,
    Job.parameters,
    Job.flops,
)
# any kind: so both engines read the index that holds all of it; for certain kinds, PostgreSQL does not
_JOBS = _JOBS.join(Job, Job.id == SweepJob.job_id)
_JOBS = _JOBS.where(SweepJob.sweep_id == bindparam("sweep"), Job.kind > "")
_CELLS = select(Cell.id, Cell.position, Cell.settings, Cell.is_control, Cell.control_id)
_CELLS = _CELLS.where(Cell.sweep_id == bindparam("sweep")).order_by(Cell.position, Cell.id)


def cells_of(session: Session, sweep: Sweep, cell_id: int | None = None) -> tuple[CellView, ...]:
    """As `cells`, of a sweep already found; only the cell `cell_id` where that is given."""
    of_jobs, of_cells = _JOBS, _CELLS
    if cell_id is not None:
        of_jobs = of_jobs.where(SweepJob.cell_id == cell_id)
        of_cells = of_cells.where(Cell.id == cell_id)
    named = {"sweep": sweep.id}
    connection = session.connection()  # rows of columns alone come faster than through the session
    jobs = [job for job in connection.execute(of_jobs, named).all() if job.kind in TRAINED]
    jobs.sort(key=itemgetter(0, 1))
    by_cell = {cell: tuple(of_cell) for cell, of_cell in groupby(jobs, itemgetter(0))}
    adaptive = adaptive_of(session, sweep)
    return tuple(
        _view(cell, by_cell.get(cell.id, ()), sweep.seeds, adaptive)
        for cell in connection.execute(of_cells, named).all()
    )


def _view(cell: Any, jobs: Sequence[Any], seeds: list[int], adaptive: Adaptive) -> CellView:
    """Of rows of `_CELLS` and `_JOBS`; the jobs in the order of their seeds."""
    results = tuple(
        [
            SeedResult(
                seed,
                job_id,
                state,
                loss if state == "finished" and loss is not None and isfinite(loss) else None,
                diverged_step,
            )
            for _, seed, job_id, _, state, loss, diverged_step, *_ in jobs
        ]
    )
    settled = {r.seed for r in results if r.tail_mean is not None or r.state in ("diverged", "failed")}
    missing = tuple(sorted({*seeds, *(r.seed for r in results)} - settled))
    parameters, flops, kind = (jobs[-1].parameters, jobs[-1].flops, jobs[-1].kind) if jobs else (0, 0, "")
    return CellView(
        id=cell.id,
        position=cell.position,
        settings=dict(cell.settings),
        is_control=cell.is_control,
        control_id=cell.control_id,
        parameters=parameters or None,  # 0 where runs from elsewhere do not tell
        flops=flops or None,
        results=results,
        state=_state({r.state for r in results}, bool(missing)),
        seeds_missing=missing,
        external=kind == "external",
        fresh_seeds=tuple([r.seed for r in results if r.seed in adaptive.fresh and not cell.is_control]),
        seed_rule=adaptive.rule,
        pruned_step=adaptive.pruned.get(cell.id),
    )


def _state(states: set[str], missing: bool) -> CellState:
    if "diverged" in states:
        return "diverged"
    if "failed" in states:
        return "failed"
    if states & {"running", "cancelling"}:
        return "running"
    return "missing" if missing else "done"

"""From a plan to wishes: what a sweep asks for, compared with what the store holds already."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.difference import sweep_values
from headcount.orchestrator.store.growth import drop_trials_that_do_not_fit
from headcount.orchestrator.store.instruments import add_instruments, want_instruments
from headcount.orchestrator.store.journal import announce_sweep, now
from headcount.orchestrator.store.models import Cell, Dataset, Job, Sweep, SweepJob
from headcount.orchestrator.store.tails import report_over
from headcount.orchestrator.store.wishes import chunks, drop_wishes, requeue
from headcount.sweeps.planning.growth import cell_key, plain
from headcount.trainer.config import NUMERICS, fields_of
from headcount.trainer.flops import job_flops, parameter_count

if TYPE_CHECKING:
    from headcount.sweeps.planning.plan import Plan
    from headcount.sweeps.planning.planned import PlannedJob


@dataclass(frozen=True)
class Submission:
    """What a submission found and changed."""

    sweep_id: int
    new: int
    """Jobs that no sweep had before."""
    known: int
    """Jobs that this sweep had already."""
    shared: int
    """Jobs that the store had from other sweeps."""
    requeued: int
    """Known or shared jobs that had failed or been cancelled, and are queued again."""
    added_cells: int
    removed_cells: int


def submit(session: Session, plan: "Plan", owner: str, stop_at: datetime | None = None) -> Submission:
    """Make the store want exactly the jobs of `plan` for the sweep of that name, and train nothing twice.

    The same plan again changes nothing, but that failed and cancelled jobs are queued again. An edited
    plan of the same name adds what is new, paused where the sweep is, and withdraws what is gone; its owner
    stays. Only jobs that would end before `stop_at` are dispatched.
    """
    sweep, changed = _sweep_row(session, plan, owner, stop_at)
    _add_datasets(session, plan)
    cell_ids, added, removed, kept_changed = _cells(session, sweep, plan)
    wishes = {w.job_id: w for w in session.scalars(select(SweepJob).where(SweepJob.sweep_id == sweep.id))}
    states = _states(session, [job.id for job in plan.jobs])
    new = [job for job in plan.jobs if job.id not in states]
    _add_jobs(session, new, plan.spec.tail)
    changed |= bool(report_over(session, plan.spec, sweep.id, states))
    changed |= _wish(session, sweep, plan, cell_ids, wishes)
    gone = wishes.keys() - {job.id for job in plan.jobs}
    drop_wishes(session, sweep.id, gone)
    _drop_cells(session, removed)
    wanted = {job.id for job in plan.jobs if job.is_wanted}
    stopped = [j for j, state in states.items() if state in ("failed", "cancelled") and j in wanted]
    requeued = requeue(session, stopped)
    known = len(states.keys() & wishes.keys())
    submission = Submission(
        sweep_id=sweep.id,
        new=len(new),
        known=known,
        shared=len(states) - known,
        requeued=requeued,
        added_cells=added,
        removed_cells=len(removed),
    )
    changed |= want_instruments(session, sweep.id, plan.instruments)
    changed |= _begin_growing(session, sweep, plan, bool(changed or new or gone or requeued))
    if changed or kept_changed or new or gone or requeued or added or removed:
        announce_sweep(session, sweep.id, "submitted", by=owner, **_counts(submission))
    return submission


def extend(session: Session, sweep: Sweep, plan: "Plan") -> dict[int, int]:
    """Want what `plan` has and the sweep lacks, and nothing less; the rows of its cells by their position.

    New jobs go behind those that wait. Withdrawn wishes that the plan has are wished for again.
    """
    cell_ids, _, _, _ = _cells(session, sweep, plan)
    held = {w.job_id: w for w in session.scalars(select(SweepJob).where(SweepJob.sweep_id == sweep.id))}
    lacking = [job for job in plan.jobs if job.is_wanted and not (job.id in held and held[job.id].wanted)]
    states = _states(session, [job.id for job in lacking])
    _add_jobs(session, [job for job in lacking if job.id not in states], plan.spec.tail)
    report_over(session, plan.spec, sweep.id, states)
    last = max((wish.position for wish in held.values()), default=-1)
    moved = [replace(job, position=last + 1 + place) for place, job in enumerate(lacking)]
    _wish(session, sweep, replace(plan, jobs=tuple(moved)), cell_ids, held)
    requeue(session, [j for j, state in states.items() if state in ("failed", "cancelled")])
    add_instruments(session, sweep.id, plan.instruments)
    axes = plain(plan.axes)
    if lacking or sweep.axes != axes:
        sweep.axes = axes
        session.flush()
        announce_sweep(session, sweep.id, "extended", jobs=len(lacking))
    return cell_ids


def _begin_growing(session: Session, sweep: Sweep, plan: "Plan", anything_new: bool) -> bool:
    """Let the scheduler add to an adaptive sweep, but where all is there and nothing new was asked."""
    growth = "growing" if plan.spec.is_adaptive else None
    if growth is None and sweep.growth is None:
        return False
    if growth is not None and not anything_new and sweep.growth in ("growing", "held", "over"):
        return False
    drop_trials_that_do_not_fit(session, sweep.id, plan.spec)
    paused = select(SweepJob.job_id).where(SweepJob.sweep_id == sweep.id, SweepJob.paused).limit(1)
    is_held = sweep.growth == "held" or session.scalar(paused) is not None
    sweep.growth = "held" if growth and is_held else growth
    sweep.growth_note = None
    session.flush()
    return True


def compare(session: Session, plan: "Plan") -> Submission:
    """What `submit` would find and change, without changing anything; `sweep_id` 0 for a sweep not there."""
    sweep = session.scalar(select(Sweep).where(Sweep.name == plan.spec.name))
    states = _states(session, [job.id for job in plan.jobs])
    held = {c.id: c for c in sweep_cells(session, sweep.id)} if sweep else {}
    wishes = select(SweepJob.job_id).where(SweepJob.sweep_id == (sweep.id if sweep else 0))
    known = len(states.keys() & set(session.scalars(wishes)))
    before = {cell_key(c.is_control, c.settings) for c in held.values()}
    after = {cell_key(c.is_control, c.settings) for c in plan.cells}
    return Submission(
        sweep_id=sweep.id if sweep else 0,
        new=len(plan.jobs) - len(states),
        known=known,
        shared=len(states) - known,
        requeued=sum(state in ("failed", "cancelled") for state in states.values()),
        added_cells=len(after - before),
        removed_cells=len(before - after),
    )


def sweep_cells(session: Session, sweep_id: int) -> list[Cell]:
    """A sweep's cells in the order of the plan."""
    return list(session.scalars(select(Cell).where(Cell.sweep_id == sweep_id).order_by(Cell.position)))


def _counts(submission: Submission) -> dict[str, int]:
    return {name: count for name, count in asdict(submission).items() if name != "sweep_id" and count}


def _sweep_row(session: Session, plan: "Plan", owner: str, stop_at: datetime | None) -> tuple[Sweep, bool]:
    """The sweep of that name as the file now says, and whether anything of it changed."""
    values = {**sweep_values(plan), "stop_at": stop_at}
    sweep = session.scalar(select(Sweep).where(Sweep.name == plan.spec.name))
    if sweep is None:
        sweep = Sweep(name=plan.spec.name, owner=owner, version=1, created=now(), **values)
        session.add(sweep)
        session.flush()
        return sweep, True
    edited = {name for name, value in values.items() if getattr(sweep, name) != value}
    if "analysis" in edited and sweep.first_analysis is None:
        sweep.first_analysis = sweep.analysis
    for name in edited:
        setattr(sweep, name, values[name])
    session.flush()
    return sweep, bool(edited)


def _add_datasets(session: Session, plan: "Plan") -> None:
    for manifest in plan.datasets:
        if session.get(Dataset, manifest.fingerprint) is None:
            session.add(
                Dataset(
                    fingerprint=manifest.fingerprint,
                    name=manifest.name,
                    manifest=asdict(manifest),
                    created=now(),
                )
            )
    session.flush()


def _cells(session: Session, sweep: Sweep, plan: "Plan") -> tuple[dict[int, int], int, list[Cell], bool]:
    """Row id by position in the plan, how many are new, the rows no longer planned, if kept ones moved."""
    held = {cell_key(c.is_control, c.settings): c for c in sweep_cells(session, sweep.id)}
    rows: dict[int, Cell] = {}
    added, changed = 0, False
    for cell in plan.cells:
        row = held.pop(cell_key(cell.is_control, cell.settings), None)
        if row is None:
            row = Cell(sweep_id=sweep.id, settings=plain(cell.settings), is_control=cell.is_control)
            session.add(row)
            added += 1
        elif row.position != cell.position:
            changed = True
        row.position = cell.position
        rows[cell.position] = row
    session.flush()
    for cell in plan.cells:
        control_id = None if cell.control is None else rows[cell.control].id
        changed |= rows[cell.position].control_id != control_id
        rows[cell.position].control_id = control_id
    session.flush()
    return {position: row.id for position, row in rows.items()}, added, list(held.values()), changed


def _states(session: Session, job_ids: list[str]) -> dict[str, str]:
    """The state of those jobs that the store has."""
    states: dict[str, str] = {}
    for chunk in chunks(job_ids):
        states.update(session.execute(select(Job.id, Job.state).where(Job.id.in_(chunk))).all())
    return states


def _add_jobs(session: Session, jobs: "Iterable[PlannedJob]", tail: int | None) -> None:
    rows = [
        {
            "id": job.id,
            "kind": "train",
            "config": {**plain(fields_of(job.config)), "seed": job.config.seed},
            "seed": job.config.seed,
            "fingerprint": job.fingerprint,
            "numerics": NUMERICS,
            "parameters": parameter_count(job.config),
            "flops": job_flops(job.config),
            "state": "queued",
            "step": 0,
            "tail": tail,
            "created": now(),
        }
        for job in jobs
    ]
    if rows:
        session.execute(insert(Job), rows)


def _wish(
    session: Session, sweep: Sweep, plan: "Plan", cell_ids: Mapping[int, int], held: Mapping[str, SweepJob]
) -> bool:
    """Want every job of the plan; whether that changed a wish that was there."""
    changed, rows = False, []
    is_paused = any(wish.paused for wish in held.values())
    for job in plan.jobs:
        values = {
            "cell_id": cell_ids[job.cell],
            "control_job_id": job.control_id,
            "wanted": job.is_wanted,
            "priority": plan.spec.priority,
            "position": job.position,
        }
        wish = held.get(job.id)
        if wish is None:
            rows.append({"sweep_id": sweep.id, "job_id": job.id, "paused": is_paused, **values})
            continue
        for name, value in values.items():
            if getattr(wish, name) != value:
                setattr(wish, name, value)
                changed = True
    session.flush()
    if rows:
        session.execute(insert(SweepJob), rows)
    return changed or bool(rows)


def _drop_cells(session: Session, cells: list[Cell]) -> None:
    for chunk in chunks([cell.id for cell in cells]):
        session.execute(
            delete(Cell).where(Cell.id.in_(chunk)), execution_options={"synchronize_session": False}
        )

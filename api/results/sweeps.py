"""Sweeps as they stand: what was asked for, how many jobs are in which state, and how far the work is."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from sqlalchemy import Float, bindparam, case, cast, func, select
from sqlalchemy.orm import Session, load_only

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.following.instruments import instruments_of
from headcount.orchestrator.search.telling import growth_words
from headcount.orchestrator.store.limits import nothing_begins
from headcount.orchestrator.store.models import (
    JOB_STATES,
    RESULT_STATES,
    SETTLED_STATES,
    Cell,
    Dataset,
    Job,
    Sweep,
    SweepJob,
    Trial,
)

SweepState = Literal["empty", "queued", "running", "done", "stopped"]


@dataclass(frozen=True)
class SweepSummary:
    """One line of the list of sweeps. Every job that the sweep wants or wanted is counted."""

    name: str
    description: str
    owner: str
    version: int
    """Raised with every change that shows in the sweep's results."""
    created: datetime
    state: SweepState
    """`done`: every job has a result; `stopped`: every job is settled, but some failed or were cancelled."""
    jobs: int
    settled: int
    states: dict[str, int]
    """Number of jobs by state, every state named."""
    progress: float
    """Share of the work done, from 0 to 1, each job weighed by its FLOPs."""
    last_settled: datetime | None


@dataclass(frozen=True)
class DataView:
    """A data set that the sweep's jobs train on."""

    fingerprint: str
    name: str


@dataclass(frozen=True)
class SweepView(SweepSummary):
    """One sweep with what was asked for."""

    axes: dict[str, tuple[Any, ...]]
    """Axis name to its values, in the file's order."""
    seeds: tuple[int, ...]
    analysis: dict[str, Any]
    """Fixed at submission: the axis, its ends and middle, alpha."""
    exploratory: bool
    """Whether the analysis was edited after the sweep was submitted."""
    cells: int
    controls: int
    data: tuple[DataView, ...]
    yaml: str
    """The file as submitted."""
    growing: bool
    """Whether the sweep still adds cells or seeds to itself: a search, refined values, seeds by a rule."""
    growth: tuple[str, ...]
    """How far that is and what it found, a line each; none of a plain grid."""
    pruned: int
    """Cancelled jobs of cells that a search gave up."""
    instruments: dict[str, dict[str, int]]
    """Number of probes and downstream evaluations by kind and state; they are not among the jobs."""
    held_back: str | None
    """Why none of its waiting jobs begins, such as a budget that is used up; none where some may."""


Known = dict[int, SweepSummary]
"""Summaries by the id of their sweep."""


def list_sweeps(session: Session, known: Known | None = None) -> tuple[SweepSummary, ...]:
    """Every sweep, the newest first.

    Of sweeps that are in `known` as they are now, no job is counted again; `known` then holds this answer.
    """
    known = {} if known is None else known
    shown = load_only(Sweep.name, Sweep.description, Sweep.owner, Sweep.version, Sweep.created, Sweep.growth)
    query = select(Sweep).options(shown).order_by(Sweep.created.desc(), Sweep.id.desc())
    sweeps = session.scalars(query).all()
    held = {s.id: known[s.id] for s in sweeps if s.id in known and _is_of(known[s.id], s)}
    changed = [sweep.id for sweep in sweeps if sweep.id not in held]
    counted = _counts(session, changed) if changed else {}
    found = {
        sweep.id: held.get(sweep.id) or SweepSummary(**_summary(sweep, counted.get(sweep.id, [])))
        for sweep in sweeps
    }
    known.clear()
    known.update(found)
    return tuple(found.values())


def _is_of(summary: SweepSummary, sweep: Sweep) -> bool:
    """Whether a summary is of this very state of the sweep."""
    return (summary.version, summary.created) == (sweep.version, sweep.created)


def sweep_view(session: Session, name: str) -> SweepView:
    """One sweep. Raises `NotFoundError`."""
    sweep = find_sweep(session, name)
    cells, controls = session.execute(
        select(func.count(), func.count().filter(Cell.is_control)).where(Cell.sweep_id == sweep.id)
    ).one()
    counts = _counts(session, [sweep.id]).get(sweep.id, [])
    data = sorted({count.fingerprint for count in counts})
    names = dict(session.execute(select(Dataset.fingerprint, Dataset.name)).all())
    return SweepView(
        **_summary(sweep, counts),
        axes={axis: tuple(values) for axis, values in sweep.axes.items()},
        seeds=tuple(sweep.seeds),
        analysis=dict(sweep.analysis),
        exploratory=sweep.is_exploratory,
        cells=cells,
        controls=controls,
        data=tuple(DataView(fingerprint, names.get(fingerprint, "")) for fingerprint in data),
        yaml=sweep.yaml,
        growing=sweep.growth in ("growing", "held"),
        growth=tuple(growth_words(session, sweep)),
        pruned=_pruned(session, sweep.id) if sweep.growth else 0,
        instruments={kind: dict(states) for kind, states in instruments_of(session, sweep.id).states.items()},
        held_back=nothing_begins(session, sweep, *_waiting_and_running(counts)),
    )


def _pruned(session: Session, sweep_id: int) -> int:
    cells = select(Trial.cell_id).where(Trial.sweep_id == sweep_id, Trial.state == "pruned")
    jobs = select(func.count()).select_from(SweepJob).join(Job, Job.id == SweepJob.job_id)
    jobs = jobs.where(SweepJob.sweep_id == sweep_id, SweepJob.cell_id.in_(cells), Job.state == "cancelled")
    return session.scalar(jobs) or 0


def _waiting_and_running(counts: "Sequence[_Count]") -> tuple[int, int]:
    jobs = _by_state(counts)
    running = jobs["running"] + jobs["cancelling"]
    return jobs["queued"] + running, running


class SweepVersions(NamedTuple):
    """What changes whenever what is shown of a sweep does, and differs between sweeps."""

    sweep: str
    results: str
    """Of what shows no running job's progress: tables, statistics, cells."""


def sweep_versions(session: Session, name: str) -> SweepVersions:
    """Raises `NotFoundError`."""
    found = session.connection().execute(_VERSIONS, {"named": name}).first()
    if found is None:
        find_sweep(session, name)  # raises, and says which name is near
    assert found is not None
    sweep_id, version, of_results, created = found
    begun = f"{created.timestamp():.6f}"
    return SweepVersions(f"{sweep_id}.{version}.{begun}", f"{sweep_id}.results.{of_results}.{begun}")


_SWEEP: Any = Sweep.__table__
_VERSIONS = select(_SWEEP.c.id, _SWEEP.c.version, _SWEEP.c.results_version, _SWEEP.c.created).where(
    _SWEEP.c.name == bindparam("named")
)


def sweep_version(session: Session, name: str) -> str:
    """Of all that is shown of the sweep. Raises `NotFoundError`."""
    return sweep_versions(session, name).sweep


def results_version(session: Session, name: str) -> str:
    """Of the sweep's tables. Raises `NotFoundError`."""
    return sweep_versions(session, name).results


@dataclass(frozen=True)
class _Count:
    """The jobs of one sweep in one state on one data set."""

    state: str
    fingerprint: str
    jobs: int
    flops: float
    flops_done: float
    last_ended: datetime | None


def _counts(session: Session, sweep_ids: Sequence[int]) -> dict[int, list[_Count]]:
    steps = cast(func.nullif(Job.config["train.steps"].as_integer(), 0), Float)
    done = case(
        (Job.state.in_(RESULT_STATES), Job.flops),
        else_=func.coalesce(Job.flops * Job.step / steps, 0.0),
    )
    query = (
        select(
            SweepJob.sweep_id,
            Job.state,
            Job.fingerprint,
            func.count(),
            func.sum(Job.flops),
            func.sum(done),
            func.max(Job.ended),
        )
        .join(Job, Job.id == SweepJob.job_id)
        .where(SweepJob.sweep_id.in_(sweep_ids))
        .group_by(SweepJob.sweep_id, Job.state, Job.fingerprint)
    )
    counted: dict[int, list[_Count]] = {}
    for sweep, *fields in session.execute(query):
        counted.setdefault(sweep, []).append(_Count(*fields))
    return counted


def _by_state(counts: Sequence[_Count]) -> dict[str, int]:
    """Number of jobs, every state named."""
    jobs = dict.fromkeys(JOB_STATES, 0)
    for count in counts:
        jobs[count.state] += count.jobs
    return jobs


def _summary(sweep: Sweep, counts: Sequence[_Count]) -> dict[str, Any]:
    states = _by_state(counts)
    flops = sum(c.flops for c in counts)
    return {
        "name": sweep.name,
        "description": sweep.description,
        "owner": sweep.owner,
        "version": sweep.version,
        "created": sweep.created,
        "state": _state(states, sweep.growth in ("growing", "held")),
        "jobs": sum(states.values()),
        "settled": sum(states[s] for s in SETTLED_STATES),
        "states": states,
        "progress": min(1.0, sum(c.flops_done for c in counts) / flops) if flops else float(bool(counts)),
        "last_settled": max((c.last_ended for c in counts if c.last_ended), default=None),
    }


def _state(states: dict[str, int], growing: bool) -> SweepState:
    if not any(states.values()):
        return "queued" if growing else "empty"
    if states["running"] or states["cancelling"]:
        return "running"
    if states["queued"] or growing:
        return "queued"
    return "stopped" if states["failed"] or states["cancelled"] else "done"

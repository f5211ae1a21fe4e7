"""Instruments as jobs: what sweeps want measured, and what was measured at a command.

An instrument waits, queued, until its parent has left a model; where the parent ends without one, it is
cancelled. Its own results are measurements, by names that say of what (`probe.excess`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, exists, insert, or_, select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.instrument_models import SweepInstrument
from headcount.orchestrator.store.journal import now, touch_sweeps_of
from headcount.orchestrator.store.models import Artifact, Job, Measurement
from headcount.orchestrator.store.wishes import cancel_unwanted, chunks, requeue
from headcount.sweeps.planning.instruments import PlannedInstrument, instrument_id


def want_instruments(session: Session, sweep_id: int, planned: Sequence[PlannedInstrument]) -> bool:
    """Make the sweep want exactly what is `planned`, after its wishes for the parents; whether that changed
    any. Instruments that failed or were cancelled are queued again."""
    changed = _add_instruments(session, sweep_id, planned)
    held = session.scalars(select(SweepInstrument.job_id).where(SweepInstrument.sweep_id == sweep_id))
    gone = set(held) - {instrument.id for instrument in planned}
    for chunk in chunks(gone):
        session.execute(
            delete(SweepInstrument).where(
                SweepInstrument.sweep_id == sweep_id, SweepInstrument.job_id.in_(chunk)
            ),
            execution_options={"synchronize_session": False},
        )
    cancel_unwanted(session, gone)
    return changed or bool(gone)


def add_instruments(session: Session, sweep_id: int, planned: Sequence[PlannedInstrument]) -> None:
    """As `want_instruments`, and want nothing less."""
    _add_instruments(session, sweep_id, planned)


def _add_instruments(session: Session, sweep_id: int, planned: Sequence[PlannedInstrument]) -> bool:
    possible = _with_a_model_to_come(session, {instrument.parent_id for instrument in planned})
    planned = [instrument for instrument in planned if instrument.parent_id in possible]
    states = _states(session, [instrument.id for instrument in planned])
    add_jobs(session, [i for i in planned if i.id not in states])
    held = {
        wish.job_id: wish
        for wish in session.scalars(select(SweepInstrument).where(SweepInstrument.sweep_id == sweep_id))
    }
    changed = False
    rows = []
    for instrument in planned:
        wish = held.get(instrument.id)
        if wish is None:
            rows.append({"sweep_id": sweep_id, "job_id": instrument.id, "wanted": instrument.is_wanted})
        elif wish.wanted != instrument.is_wanted:
            wish.wanted, changed = instrument.is_wanted, True
    session.flush()
    if rows:
        session.execute(insert(SweepInstrument), rows)
    wanted = {instrument.id for instrument in planned if instrument.is_wanted}
    stopped = [job for job, state in states.items() if state in ("failed", "cancelled") and job in wanted]
    requeue(session, stopped)
    return changed or bool(rows or stopped)


def add_jobs(session: Session, planned: Sequence[PlannedInstrument]) -> None:
    """Queue instruments that the store does not have; it has their parents."""
    parents: dict[str, Job] = {}
    for chunk in chunks({instrument.parent_id for instrument in planned}):
        parents |= {job.id: job for job in session.scalars(select(Job).where(Job.id.in_(chunk)))}
    rows = []
    for instrument in planned:
        parent = parents[instrument.parent_id]
        rows.append(
            {
                "id": instrument.id,
                "kind": instrument.kind,
                "parent_id": parent.id,
                "config": {**parent.config, **instrument.settings},
                "seed": parent.seed,
                "fingerprint": parent.fingerprint,
                "numerics": parent.numerics,
                "parameters": parent.parameters,
                "flops": 0.0,  # no budget counts on what an instrument takes
                "state": "queued",
                "step": 0,
                "created": now(),
            }
        )
    if rows:
        session.execute(insert(Job), rows)


@dataclass(frozen=True)
class Measured:
    """What a command found of one job."""

    kind: str
    settings: Mapping[str, Any]
    """As `PlannedInstrument` has them."""
    measurements: Mapping[str, float | None]
    key: str
    """The artifact key of the file with all of it."""
    sha256: str


def store_measured(session: Session, parent_id: str, found: Measured) -> str | None:
    """Keep what a command measured of a stored job, as its instrument would have; the instrument's id.

    None where a slot is measuring the same now: its result counts.
    """
    own_id = instrument_id(found.kind, parent_id, found.settings)
    if session.get(Job, own_id) is None:
        add_jobs(session, [PlannedInstrument(own_id, found.kind, parent_id, found.settings)])
    job = session.get_one(Job, own_id, with_for_update=True)
    if job.state in ("running", "cancelling"):
        return None
    session.execute(delete(Measurement).where(Measurement.job_id == job.id))
    rows = [{"job_id": job.id, "name": name, "value": value} for name, value in found.measurements.items()]
    session.execute(insert(Measurement), rows)
    session.execute(delete(Artifact).where(Artifact.job_id == job.id, Artifact.kind == found.kind))
    session.add(
        Artifact(key=found.key, job_id=job.id, kind=found.kind, step=None, sha256=found.sha256, created=now())
    )
    job.state, job.ended = "finished", now()
    session.flush()
    touch_sweeps_of(session, [job.id])
    return job.id


def _states(session: Session, job_ids: Collection[str]) -> dict[str, str]:
    states: dict[str, str] = {}
    for chunk in chunks(job_ids):
        states.update(session.execute(select(Job.id, Job.state).where(Job.id.in_(chunk))).all())
    return states


def _with_a_model_to_come(session: Session, parents: Collection[str]) -> set[str]:
    """Those of the jobs that have left a model, or may still do."""
    has_model = exists().where(Artifact.job_id == Job.id, Artifact.kind == "model")
    may = or_(Job.state.in_(("queued", "running", "cancelling")), (Job.state == "finished") & has_model)
    found: set[str] = set()
    for chunk in chunks(parents):
        found |= set(session.scalars(select(Job.id).where(Job.id.in_(chunk), may)))
    return found

"""What answers about jobs, or about every sweep, depend on; `results.sweep_version` is that of one sweep."""

import hashlib

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_job
from headcount.orchestrator.store.models import Sweep, SweepJob


def sweeps_version(session: Session) -> str:
    """Changes with every change of any sweep."""
    return _digest(session.execute(select(Sweep.id, Sweep.version, Sweep.created).order_by(Sweep.id)).all())


def job_version(session: Session, job_id: str) -> str:
    """Changes with every change of a job: each raises the versions of its sweeps. Raises `NotFoundError`."""
    job = find_job(session, job_id)
    sweeps = (
        select(Sweep.id, Sweep.version)
        .join(SweepJob, SweepJob.sweep_id == Sweep.id)
        .where(SweepJob.job_id == job_id)
        .order_by(Sweep.id)
    )
    return _digest([job.state, job.step, *session.execute(sweeps).all()])


def _digest(parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()

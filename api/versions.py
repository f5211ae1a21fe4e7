"""What answers about a sweep, about jobs or about every sweep depend on."""

import hashlib
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_job
from headcount.api.results.sweeps import SweepVersions, sweep_versions
from headcount.orchestrator.store.models import Sweep, SweepJob


@dataclass(frozen=True)
class SweepLook:
    """Asks for the versions of one sweep."""

    sweep: str

    def __call__(self, session: Session) -> SweepVersions:
        return sweep_versions(session, self.sweep)


@dataclass(frozen=True)
class VersionOf:
    """One of a sweep's versions."""

    look: SweepLook
    of: Literal["sweep", "results"]

    def __call__(self, session: Session) -> str:
        return self.among(self.look(session))

    def among(self, versions: SweepVersions) -> str:
        """It."""
        return versions.sweep if self.of == "sweep" else versions.results


def of_sweep(sweep: str) -> VersionOf:
    """The version of all that is shown of a sweep, the progress of its running jobs included."""
    return VersionOf(SweepLook(sweep), "sweep")


def of_results(sweep: str) -> VersionOf:
    """The version of all that a sweep's tables depend on."""
    return VersionOf(SweepLook(sweep), "results")


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

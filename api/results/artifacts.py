"""Files that a job left among the artifacts."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import NotFoundError, find_job
from headcount.orchestrator.store.models import Artifact


@dataclass(frozen=True)
class ArtifactView:
    """One file of a job."""

    kind: str
    """`checkpoint`, `model`, `curve` (the training loss of every update), `routing` or `log`."""
    step: int | None
    sha256: str
    created: datetime


def artifacts(session: Session, job_id: str) -> tuple[ArtifactView, ...]:
    """The files that a job left, by kind. Raises `NotFoundError`."""
    find_job(session, job_id)
    rows = session.scalars(select(Artifact).where(Artifact.job_id == job_id).order_by(Artifact.kind))
    return tuple(ArtifactView(a.kind, a.step, a.sha256, a.created) for a in rows)


def artifact_key(session: Session, job_id: str, kind: str) -> tuple[str, str]:
    """Key and SHA-256 of a job's file of this kind. Raises `NotFoundError`, also where it left none."""
    find_job(session, job_id)
    found = session.execute(
        select(Artifact.key, Artifact.sha256).where(Artifact.job_id == job_id, Artifact.kind == kind)
    ).first()
    if found is None:
        raise NotFoundError(f"job {job_id} left no file of the kind {kind!r}; it does when it ends by itself")
    return found.key, found.sha256

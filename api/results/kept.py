"""Files that the jobs of a sweep left among the artifacts, such as the training loss of every update."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Artifact, Job, SweepJob


@dataclass(frozen=True)
class KeptFile:
    """One file of one job."""

    cell: int
    seed: int
    key: str
    """Under the artifacts' address."""


def kept_files(
    session: Session, sweep: str, cells: Sequence[int], kind: Literal["curve", "routing"]
) -> tuple[KeptFile, ...]:
    """The files of a kind that the jobs of these cells left, by cell and seed. Raises `NotFoundError`."""
    query = (
        select(SweepJob.cell_id, Job.seed, Artifact.key)
        .join(Job, Job.id == SweepJob.job_id)
        .join(Artifact, Artifact.job_id == Job.id)
        .where(
            SweepJob.sweep_id == find_sweep(session, sweep).id,
            SweepJob.cell_id.in_(cells),
            Artifact.kind == kind,
        )
        .order_by(SweepJob.cell_id, Job.seed)
    )
    return tuple(KeptFile(*row) for row in session.execute(query))

"""Which evaluations a job's tail mean is over: one rule a job, whoever wants it."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Evaluation, Job, Sweep, SweepJob
from headcount.orchestrator.store.wishes import chunks
from headcount.trainer.tail import tail_mean

if TYPE_CHECKING:
    from headcount.sweeps.file.spec import SweepSpec


def report_over(session: Session, spec: "SweepSpec", sweep_id: int, job_ids: Collection[str]) -> int:
    """Let jobs that the store has report over the sweep's tail; how many did otherwise before.

    Finished ones report anew, from their stored evaluations. Raises `SpecError` where another sweep has one
    of them, since its table would change.
    """
    changed = 0
    for chunk in chunks(job_ids):
        other = [
            job_id
            for job_id, tail in session.execute(select(Job.id, Job.tail).where(Job.id.in_(chunk)))
            if tail != spec.tail
        ]
        if not other:
            continue
        shared = select(Sweep.name, Job.tail).join(SweepJob, SweepJob.sweep_id == Sweep.id)
        shared = shared.join(Job, Job.id == SweepJob.job_id).where(SweepJob.job_id.in_(other))
        found = session.execute(shared.where(Sweep.id != sweep_id).limit(1)).first()
        if found is not None:
            raise spec.error(
                f"the sweep {found[0]} shares jobs with this one, whose tail mean is over "
                f"{tail_words(found[1])}: give the same tail, or another text or length",
                "tail",
                "name",
            )
        session.execute(
            update(Job).where(Job.id.in_(other)).values(tail=spec.tail),
            execution_options={"synchronize_session": False},
        )
        for job in session.scalars(select(Job).where(Job.id.in_(other), Job.state == "finished")):
            session.refresh(job)
            report(session, job)
        changed += len(other)
    return changed


def report(session: Session, job: Job) -> None:
    """Write the tail mean of a finished job from its stored evaluations."""
    [job.tail_mean] = tail_means(session, {job.id: (job.config["train.steps"], job.tail)}).values()


def tail_means(session: Session, jobs: Mapping[str, tuple[int, int | None]]) -> dict[str, float | None]:
    """The tail means of jobs from their stored evaluations; of each its steps are given, and its tail."""
    found: dict[str, list[tuple[int, float]]] = {job_id: [] for job_id in jobs}
    for chunk in chunks(jobs):
        for job_id, step, loss in session.connection().execute(_LOSSES, {"of_jobs": chunk}):
            found[job_id].append((step, loss))
    return {job_id: tail_mean(losses, *jobs[job_id]) for job_id, losses in found.items()}


_EVALUATION: Any = Evaluation.__table__
_LOSSES = (
    select(_EVALUATION.c.job_id, _EVALUATION.c.step, _EVALUATION.c.loss)
    .where(_EVALUATION.c.job_id.in_(bindparam("of_jobs", expanding=True)), _EVALUATION.c.loss.is_not(None))
    .order_by(_EVALUATION.c.job_id, _EVALUATION.c.step)
)


def tail_words(tail: int | None) -> str:
    return "the last quarter of its steps" if tail is None else f"its last {tail} evaluations"

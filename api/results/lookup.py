"""Finding what a name in a query, a path or a command stands for."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Job, Sweep
from headcount.trainer.errors import UserError, nearest


class NotFoundError(UserError):
    """No such sweep, cell or job in the store."""


class QueryError(UserError):
    """A question that this sweep cannot answer, such as an axis that it does not vary."""


def find_sweep(session: Session, name: str) -> Sweep:
    """The sweep called `name`. Raises `NotFoundError` with the nearest name."""
    found = session.scalar(select(Sweep).where(Sweep.name == name))
    if found is None:
        names = session.scalars(select(Sweep.name)).all()
        hint = nearest(name, names) if names else "no sweep has been submitted yet"
        raise NotFoundError(f"no sweep is called {name!r}; {hint}")
    return found


def sweep_id_of(session: Session, name: str) -> int:
    """The number of the sweep called `name`, without its row. Raises `NotFoundError`."""
    found = session.scalar(select(Sweep.id).where(Sweep.name == name))
    return found if found is not None else find_sweep(session, name).id


def find_job(session: Session, job_id: str) -> Job:
    """The job with the id `job_id`. Raises `NotFoundError`."""
    found = session.get(Job, job_id)
    if found is None:
        raise NotFoundError(f"no job has the id {job_id!r}; ids are 64 hexadecimal digits")
    return found

"""What the attempts at a job printed: each has a file of its own, which the slot caps."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import NotFoundError
from headcount.orchestrator.store.models import Attempt

LAST_LINES = 60
"""Of an attempt's output that the page of its job shows; a link leads to all of it."""

Read = Callable[[str], bytes | None]


@dataclass(frozen=True)
class LogEnd:
    """The end of what one attempt printed."""

    number: int
    """Of the attempt."""
    text: str
    lines: int
    """Of the whole file."""


def logged(session: Session, job_id: str) -> frozenset[int]:
    """The numbers of the attempts whose output is kept."""
    query = select(Attempt.number).where(Attempt.job_id == job_id, Attempt.log.is_not(None))
    return frozenset(session.scalars(query))


def log_end(session: Session, job_id: str, read: Read) -> LogEnd | None:
    """The end of what the last attempt printed; None where it printed nothing that is kept."""
    last = (
        select(Attempt.number, Attempt.log)
        .where(Attempt.job_id == job_id, Attempt.log.is_not(None))
        .order_by(Attempt.number.desc())
        .limit(1)
    )
    found = session.execute(last).first()
    content = read(found.log) if found else None
    if not found or not content or not content.strip():
        return None
    lines = _text(content).rstrip().splitlines()
    return LogEnd(found.number, "\n".join(line[:1000] for line in lines[-LAST_LINES:]), len(lines))


def log_text(session: Session, job_id: str, number: int, read: Read) -> str:
    """All that is kept of what one attempt printed. Raises `NotFoundError` where nothing is."""
    query = select(Attempt.log).where(Attempt.job_id == job_id, Attempt.number == number)
    key = session.scalar(query)
    content = read(key) if key else None
    if content is None:
        raise NotFoundError(
            f"attempt {number} at job {job_id[:12]} left no output: there is no such attempt, "
            "it printed nothing, or `headcount gc` has deleted it"
        )
    return _text(content)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")

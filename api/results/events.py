"""What happened, in the order of commits: what live updates are read from."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep
from headcount.orchestrator.store.models import Event, Sweep


@dataclass(frozen=True)
class EventView:
    """One event; ids grow in the order of commits, so the last one seen is where to go on."""

    id: int
    kind: str
    sweep: str | None
    job_id: str | None
    detail: dict[str, Any]
    created: datetime


def events_after(
    session: Session, last_id: int, *, sweep: str | None = None, limit: int = 500
) -> tuple[EventView, ...]:
    """At most `limit` events behind the event `last_id`; of one sweep where given (`NotFoundError`)."""
    query = (
        select(Event, Sweep.name)
        .outerjoin(Sweep, Sweep.id == Event.sweep_id)
        .where(Event.id > last_id)
        .order_by(Event.id)
        .limit(limit)
    )
    if sweep is not None:
        query = query.where(Event.sweep_id == find_sweep(session, sweep).id)
    return tuple(
        EventView(e.id, e.kind, name, e.job_id, dict(e.detail), e.created)
        for e, name in session.execute(query)
    )


def newest_event(session: Session) -> int:
    """The id of the newest event, 0 before the first."""
    return session.scalar(select(func.max(Event.id))) or 0

"""Changes of a sweep on its way: cancel, pause, resume, retry, priority, delete."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.orm import Session

from headcount.api import results
from headcount.api.caching import check_matches, etag_of
from headcount.api.callers import CallerDep
from headcount.api.dependencies import LARGEST, StoreDep, SweepName, no_query
from headcount.api.problems import responses
from headcount.api.results.lookup import find_sweep
from headcount.api.security import needs
from headcount.api.submission import check_owner
from headcount.orchestrator.store import steering, withdraw

router = APIRouter(
    prefix="/api/v1/sweeps/{sweep}",
    tags=["sweeps"],
    dependencies=[Depends(no_query)],
    responses=responses(404, 412, 428),
)

IfMatch = Annotated[
    str | None,
    Header(description="The ETag of the sweep as you saw it, or `*` for whatever it is now. Needed."),
]


@dataclass(frozen=True)
class ChangeView:
    """What a change did."""

    sweep: str
    jobs: int
    """Wishes for jobs that it changed; 0 where all was so already."""


class Change:
    """What every change is handed: who asks for it, and of which sweep in which state."""

    def __init__(
        self,
        request: Request,
        response: Response,
        store: StoreDep,
        caller: CallerDep,
        sweep: SweepName,
        if_match: IfMatch = None,
    ) -> None:
        path = request.scope["path"]
        self.path = path if request.method == "DELETE" else path.rpartition("/")[0]
        self.response = response
        self.store = store
        self.by = caller
        self.sweep = sweep
        self.if_match = if_match

    def make(self, change: Callable[[Session, int], int]) -> ChangeView:
        """Make it, if the sweep is the caller's and as they saw it (403, 412, 428)."""
        with self.store.write() as session:
            jobs = change(session, self._allowed(session))
            session.expire_all()
            version = results.sweep_version(session, self.sweep)
        self.response.headers["ETag"] = etag_of(version, self.path)
        return ChangeView(self.sweep, jobs)

    def delete(self) -> None:
        """Remove the sweep, under the same conditions."""
        with self.store.write() as session:
            steering.delete_sweep(session, self._allowed(session), by=self.by.name)

    def _allowed(self, session: Session) -> int:
        sweep_id = find_sweep(session, self.sweep).id
        check_owner(session, self.sweep, self.by)
        check_matches(self.if_match, etag_of(results.sweep_version(session, self.sweep), self.path))
        return sweep_id


ChangeDep = Annotated[Change, Depends()]


@router.post("/cancel", openapi_extra=needs("submit"))
def cancel_sweep(change: ChangeDep) -> ChangeView:
    """Withdraw the sweep's wish for its unsettled jobs; what other sweeps want goes on."""
    return change.make(lambda session, sweep: withdraw(session, sweep, by=change.by.name))


@router.post("/pause", openapi_extra=needs("submit"))
def pause_sweep(change: ChangeDep) -> ChangeView:
    """Start no more jobs for the sweep; those that run go on."""
    return change.make(lambda session, sweep: steering.pause(session, sweep, by=change.by.name))


@router.post("/resume", openapi_extra=needs("submit"))
def resume_sweep(change: ChangeDep) -> ChangeView:
    """Start a paused sweep's jobs again."""
    return change.make(lambda session, sweep: steering.resume(session, sweep, by=change.by.name))


@router.post("/retry", openapi_extra=needs("submit"))
def retry_sweep(change: ChangeDep) -> ChangeView:
    """Queue the sweep's failed jobs again."""
    return change.make(lambda session, sweep: steering.retry(session, sweep, by=change.by.name))


class Priority(BaseModel):
    """Where the sweep's jobs stand among those of other sweeps."""

    model_config = ConfigDict(extra="forbid")

    priority: int = Field(strict=True, ge=-LARGEST, le=LARGEST, description="Higher is dispatched first.")


@router.post("/priority", openapi_extra=needs("submit"))
def set_priority(change: ChangeDep, wish: Priority) -> ChangeView:
    """Put the sweep's jobs before those of lower priority."""
    return change.make(
        lambda session, sweep: steering.set_priority(session, sweep, wish.priority, by=change.by.name)
    )


@router.delete("", status_code=204, openapi_extra=needs("submit"))
def delete_sweep(change: ChangeDep) -> None:
    """Remove the sweep and what it wishes for; jobs stay with their results, and other sweeps keep theirs."""
    change.delete()

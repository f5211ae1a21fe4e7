"""Live updates as server-sent events, read from the event table."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any

import fastapi
from fastapi import APIRouter, Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import Field
from sqlalchemy.orm import Session

from headcount.api import results
from headcount.api.callers import Caller, CallerDep, may_go_on
from headcount.api.dependencies import LARGEST, Query, StoreDep
from headcount.api.formats import plain
from headcount.api.looks import Looks
from headcount.api.problems import Problem, responses
from headcount.api.results import EventView
from headcount.api.security import needs
from headcount.orchestrator.store import Store

router = APIRouter(prefix="/api/v1", tags=["events"])

MAX_STREAMS = 100
POLL_SECONDS = 0.5
PAGE = 500


class EventQuery(Query):
    """Which events."""

    sweep: str | None = Field(None, pattern=r"^[A-Za-z0-9_.-]{1,200}$", description="Of this sweep alone.")
    follow: bool = Field(True, description="Wait for new events; otherwise end after those there are.")


class Streams:
    """The open streams of one application: counted, and ended when the service stops."""

    def __init__(self) -> None:
        self.open = 0
        self.stopping = False


@dataclass(frozen=True)
class _Following:
    """Asks for the events behind one; none where the caller may not go on.

    Streams that are as far as each other in the same events ask the same: the store is asked once for all.
    """

    after: int
    sweep: str | None
    caller: Caller

    def __call__(self, session: Session) -> tuple[EventView, ...] | None:
        if not may_go_on(session, self.caller):
            return None
        return results.events_after(session, self.after, sweep=self.sweep, limit=PAGE)


def _read(store: Store, following: _Following) -> tuple[EventView, ...] | None:
    """Beside the short questions, which a page of a stream that is behind would keep waiting."""
    with store.read() as session:
        return following(session)


def _last_id(
    request: Request,
    store: StoreDep,
    query: Annotated[EventQuery, fastapi.Query()],
    last_event_id: Annotated[int, Header(ge=-1, le=LARGEST, description="-1: the newest.")] = -1,
) -> int:
    """Where the stream starts: behind the event the client saw last, else behind the newest.

    Asked before the stream begins, while an error can still be answered as one.
    """
    if request.app.state.streams.open >= MAX_STREAMS:
        raise Problem(
            503, "too_many_streams", "too many live streams; ask again later", {"Retry-After": "10"}
        )
    with store.read() as session:
        if query.sweep is not None:
            results.sweep_version(session, query.sweep)
        return results.newest_event(session) if last_event_id < 0 else last_event_id


@router.get(
    "/events",
    response_class=EventSourceResponse,
    openapi_extra=needs("read"),
    responses=responses(404, 503)
    | {200: {"description": "Events, one an event.", "content": {"text/event-stream": {}}}},
)
async def stream_events(
    request: Request,
    store: StoreDep,
    caller: CallerDep,
    query: Annotated[EventQuery, fastapi.Query()],
    last_id: Annotated[int, Depends(_last_id)],
) -> AsyncIterator[ServerSentEvent]:
    """Events in the order of commits. A client that sends Last-Event-ID misses none and sees none twice."""

    streams: Streams = request.app.state.streams
    looks: Looks = request.app.state.looks
    streams.open += 1
    try:
        yield ServerSentEvent(comment="the stream is open", retry=2000)
        if request.state.is_head:
            return
        is_behind = True
        while not streams.stopping:
            following = _Following(last_id, query.sweep, caller)
            if is_behind:
                events = await run_in_threadpool(_read, store, following)
            else:
                events = await looks.ask(following)
            if events is None:
                return
            for event in events:
                last_id = event.id
                if event.sweep is None:
                    continue  # of tokens: for the audit alone
                yield ServerSentEvent(id=str(event.id), event=event.kind, data=_data(event))
            is_behind = len(events) == PAGE
            if not is_behind:
                if not query.follow:
                    return
                await asyncio.sleep(POLL_SECONDS - monotonic() % POLL_SECONDS)  # all at the same moments
    finally:
        streams.open -= 1


def _data(event: EventView) -> dict[str, Any]:
    data: dict[str, Any] = plain(event)
    return data

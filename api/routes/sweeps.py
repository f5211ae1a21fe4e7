"""Sweeps: the list, one, and sending a new one."""

import hashlib
import json
from dataclasses import dataclass
from typing import Annotated, Any

import fastapi
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from headcount.api import results
from headcount.api.answering import answer, as_json
from headcount.api.caching import NOT_MODIFIED
from headcount.api.callers import CallerDep
from headcount.api.dependencies import Query, SettingsDep, StoreDep, SweepName, no_query
from headcount.api.formats import to_json
from headcount.api.idempotency import IdempotencyKey, claimed
from headcount.api.problems import responses
from headcount.api.results import SweepSummary, SweepView
from headcount.api.security import needs
from headcount.api.submission import PlanView, SubmissionView, plan_view, read_spec, spec_text, store_sweep
from headcount.api.versions import of_sweep, sweeps_version

router = APIRouter(prefix="/api/v1/sweeps", tags=["sweeps"])


@dataclass(frozen=True)
class SweepList:
    """Every sweep, the newest first."""

    items: tuple[SweepSummary, ...]


@router.get(
    "",
    response_model=SweepList,
    openapi_extra=needs("read"),
    responses=responses() | NOT_MODIFIED,
    dependencies=[Depends(no_query)],
)
async def list_sweeps(request: Request) -> Response:
    """Every sweep with the number of its jobs in each state, the newest first."""

    def make(session: Session) -> bytes:
        return as_json(SweepList(results.list_sweeps(session, request.app.state.known_sweeps)))

    return await answer(request, sweeps_version, make)


@router.get(
    "/{sweep}",
    response_model=SweepView,
    openapi_extra=needs("read"),
    responses=responses(404) | NOT_MODIFIED,
    dependencies=[Depends(no_query)],
)
async def get_sweep(request: Request, sweep: SweepName) -> Response:
    """One sweep: what was asked for, and how far it is. Its ETag is what changes of it name."""

    def make(session: Session) -> bytes:
        return as_json(results.sweep_view(session, sweep))

    return await answer(request, of_sweep(sweep), make)


class SubmitQuery(Query):
    """How to take the sweep."""

    dry_run: bool = Field(False, description="Answer with the plan, and submit nothing.")


_EXAMPLE = {
    "name": "head-count",
    "job": {"model": {"scale": "nano", "residual": "mhar"}, "data": {"source": "stdlib"}},
    "axes": {"model.routing_heads": [1, 2, 4, 8]},
    "seeds": [0, 1, 2],
}
_SWEEP_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "The sweep file, as YAML or as JSON with the same fields.",
        "content": {
            media: {
                "schema": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": "string"}},
                },
                "example": _EXAMPLE,
            }
            for media in ("application/json", "application/yaml")
        },
    }
}


@router.post(
    "",
    status_code=201,
    openapi_extra=needs("submit", **_SWEEP_FILE),
    responses=responses(409, 413, 415) | {200: {"model": PlanView, "description": "The plan of a dry run."}},
)
def submit_sweep(
    request: Request,
    response: Response,
    store: StoreDep,
    settings: SettingsDep,
    caller: CallerDep,
    query: Annotated[SubmitQuery, fastapi.Query()],
    text: Annotated[str, Depends(spec_text)],
    idempotency_key: IdempotencyKey = None,
) -> SubmissionView | PlanView:
    """Send a sweep. Its data must be a source that the service knows by name, never a path.

    Sending the same sweep again changes nothing: jobs that are known are not trained twice. With an
    Idempotency-Key it gets the very same answer.
    """
    if query.dry_run:
        response.status_code = 200
        with store.read() as session:
            return plan_view(session, read_spec(session, text, settings))
    question = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    with claimed(store, caller.name, idempotency_key, question) as claim:
        if claim.answer is not None:
            submitted = SubmissionView(**json.loads(claim.answer))
        else:
            with store.read() as session:
                planned = read_spec(session, text, settings)
            with store.write() as session:
                submitted = store_sweep(session, planned, caller)
                claim.keep(session, to_json(submitted))
    response.headers["Location"] = f"{request.scope['path']}/{submitted.sweep}"
    return submitted

"""Is the service there, and may requests be sent to it?"""

from typing import Literal

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel
from sqlalchemy import text

from headcount import __version__
from headcount.api.dependencies import StoreDep, no_query
from headcount.api.problems import Problem, responses
from headcount.api.security import needs

router = APIRouter(tags=["service"], responses=responses())


class Health(BaseModel):
    """A service that can answer."""

    status: Literal["ok"]
    version: str


@router.get("/healthz", openapi_extra=needs("anyone"), dependencies=[Depends(no_query)])
async def get_health() -> Health:
    """Whether the service answers. One that does not is to be started again; the store is not asked."""
    return Health(status="ok", version=__version__)


@router.get(
    "/readyz", openapi_extra=needs("anyone"), dependencies=[Depends(no_query)], responses=responses(503)
)
def get_readiness(request: Request, store: StoreDep) -> Health:
    """Whether requests may be sent here: the store answers, and the service is not about to stop."""
    if request.app.state.streams.stopping:
        raise Problem(503, "stopping", "this service is about to stop", {"Retry-After": "5"})
    with store.read() as session:
        session.execute(text("SELECT 1"))
    return Health(status="ok", version=__version__)

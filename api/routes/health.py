"""Is the service there, and can it reach its store?"""

from typing import Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from sqlalchemy import text

from headcount import __version__
from headcount.api.dependencies import StoreDep, no_query
from headcount.api.problems import responses
from headcount.api.security import needs

router = APIRouter(tags=["service"], responses=responses())


class Health(BaseModel):
    """A service that can answer."""

    status: Literal["ok"]
    version: str


@router.get("/healthz", openapi_extra=needs("anyone"), dependencies=[Depends(no_query)])
def get_health(store: StoreDep) -> Health:
    """Whether the service and its store answer."""
    with store.read() as session:
        session.execute(text("SELECT 1"))
    return Health(status="ok", version=__version__)

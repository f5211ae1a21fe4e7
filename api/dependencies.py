"""What routes are handed: the store, the settings, and names from the path that are safe to look up.

These are coroutines since a plain function would be called in a thread, which takes longer than it does.
"""

from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict

from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

LARGEST = 2**31 - 1
"""Of a whole number in a query: what a column holds."""


async def get_store(request: Request) -> Store:
    """The store of the application; a route opens and closes its own session."""
    store: Store = request.app.state.store
    return store


async def get_settings(request: Request) -> Settings:
    """Where the service keeps data sets and artifacts."""
    settings: Settings = request.app.state.settings
    return settings


StoreDep = Annotated[Store, Depends(get_store)]
SettingsDep = Annotated[Settings, Depends(get_settings)]

SWEEP_NAME = r"^[A-Za-z0-9_.-]{1,200}$"

SweepName = Annotated[str, Path(pattern=SWEEP_NAME, description="The name of a sweep.")]
CellId = Annotated[int, Path(ge=1, le=LARGEST, description="As in the list of cells.")]
JobId = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$", description="As in the list of jobs.")]


class Query(BaseModel):
    """The parameters of a query: an unknown one is an error, never ignored."""

    model_config = ConfigDict(extra="forbid")


async def no_query(request: Request) -> None:
    """For routes without parameters: refuse any."""
    unknown = [
        {"type": "extra_forbidden", "loc": ("query", name), "msg": "Extra inputs are not permitted"}
        for name in request.query_params
    ]
    if unknown:
        raise RequestValidationError(unknown)

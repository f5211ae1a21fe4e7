"""The service: one FastAPI application over one store."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import iter_route_contexts
from starlette.responses import Response
from starlette.types import ASGIApp

from headcount import __version__
from headcount.api.answering import Answers, Tables, adapter_of
from headcount.api.caching import NotModified, code_version
from headcount.api.callers import check_scope
from headcount.api.dependencies import no_query
from headcount.api.looks import Looks
from headcount.api.observing import Figures, Observer
from headcount.api.problems import FieldProblem, ProblemDetail, install_handlers, responses
from headcount.api.results import AblationTable, NamedTable
from headcount.api.routes import (
    artifacts,
    changes,
    events,
    free,
    health,
    jobs,
    metrics,
    problems,
    results,
    rows,
    sweeps,
)
from headcount.api.security import LOOPBACK, Access, Guard, needs
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

DESCRIPTION = (
    "Results of ablation sweeps: how many routing heads, and is the difference real? "
    "Every number of a sweep is over all of its seeds. Errors are problem details (RFC 9457)."
)

THREADS = 16
"""That look into the store at a time: few, since they share one interpreter. Each has one connection."""


def create_app(
    store: Store,
    settings: Settings,
    *,
    access: Access = LOOPBACK,
    extra_routers: Sequence[APIRouter] = (),
    mounts: Mapping[str, ASGIApp] | None = None,
) -> FastAPI:
    """The service over `store`, which it closes when it stops.

    `extra_routers` add pages, whose routes declare their scope as ours do; `mounts` add public files by path.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        await to_thread.run_sync(_prepare, app)
        yield
        store.close()

    app = FastAPI(
        title="Headcount",
        version=__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        dependencies=[Depends(check_scope)],
        generate_unique_id_function=lambda route: route.name,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
    )
    app.state.store = store
    app.state.settings = settings
    app.state.access = access
    app.state.streams = events.Streams()
    app.state.looks = Looks(store)
    app.state.answers = Answers()
    app.state.tables = Tables()
    app.state.known_sweeps = {}
    app.state.figures = Figures()
    app.add_middleware(Guard, access=access)
    app.add_middleware(Observer, figures=app.state.figures)
    app.add_exception_handler(NotModified, _not_modified)
    install_handlers(app)
    for router in (
        sweeps.router,
        changes.router,
        results.router,
        free.router,
        rows.router,
        jobs.router,
        artifacts.router,
        events.router,
        health.router,
        metrics.router,
        problems.router,
        _schema,
    ):
        app.include_router(router)
    for router in extra_routers:
        app.include_router(router)
    for path, files in (mounts or {}).items():
        app.mount(path, files)
    return app


def _prepare(app: FastAPI) -> None:
    """What is made when it is first needed, and would make a first answer 0.5 s late."""
    import_module("scipy.special")
    for _ in iter_route_contexts(app.routes):
        pass  # each is built as it is passed
    code_version()
    for table in (AblationTable, NamedTable):
        adapter_of(table)


def openapi(app: FastAPI) -> dict[str, Any]:
    """The description of the service's REST part, as it is kept in `api/openapi.json`."""
    description = dict(app.openapi())
    schemas = dict(description["components"]["schemas"])
    for model in (ProblemDetail, FieldProblem):
        schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
        schema.pop("$defs", None)
        schemas[model.__name__] = schema
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    bearer = {"type": "http", "scheme": "bearer", "description": "Not needed before the first token is made."}
    description["components"] = {
        "schemas": dict(sorted(schemas.items())),
        "securitySchemes": {"bearer": bearer},
    }
    return description


_schema = APIRouter(prefix="/api/v1", tags=["service"], responses=responses())


@_schema.get("/openapi.json", openapi_extra=needs("read"), dependencies=[Depends(no_query)])
def get_openapi(request: Request) -> dict[str, Any]:
    """This description."""
    return openapi(request.app)


async def _not_modified(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotModified)
    return Response(status_code=304, headers=error.headers)

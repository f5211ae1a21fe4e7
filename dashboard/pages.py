"""The pages as routes, and as part of the whole service. Each answers HTML, its errors too."""

import hashlib
from collections.abc import Callable

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headcount.api.app import create_app
from headcount.api.callers import TokenNeeded
from headcount.api.dependencies import StoreDep
from headcount.api.results import NotFoundError
from headcount.api.security import Access, needs
from headcount.dashboard import login
from headcount.dashboard.html import error_html, job_html, sweep_html, sweeps_html
from headcount.dashboard.rendering import ROOT
from headcount.dashboard.static_files import Static
from headcount.dashboard.sweep_page import sweep_page
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store
from headcount.trainer.errors import UserError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


@router.get("/", openapi_extra=needs("read"))
def get_sweeps_page(request: Request, store: StoreDep) -> Response:
    """The list of sweeps."""

    def page() -> Response:
        with store.read() as session:
            return _answer(request, sweeps_html(session))

    return _or_error(page)


@router.get("/sweeps/{sweep:path}", openapi_extra=needs("read"))
def get_sweep_page(request: Request, store: StoreDep, sweep: str) -> Response:
    """One sweep. An address that leaves part of the view open leads to the complete one."""

    def page() -> Response:
        with store.read() as session:
            made = sweep_page(session, sweep, dict(request.query_params))
        complete = made.choice.query()
        if request.url.query != complete:
            return Response(status_code=307, headers={"Location": f"?{complete}"})
        return _answer(request, sweep_html(made))

    return _or_error(page)


@router.get("/jobs/{job}", openapi_extra=needs("read"))
def get_job_page(request: Request, store: StoreDep, job: str) -> Response:
    """One job."""

    def page() -> Response:
        with store.read() as session:
            return _answer(request, job_html(session, job))

    return _or_error(page)


def _answer(request: Request, html: str) -> Response:
    """The page, or 304 where the client has this very page: its ETag is the hash of its content."""
    body = html.encode()
    headers = {"ETag": f'W/"{hashlib.sha256(body).hexdigest()[:32]}"', "Cache-Control": "private, no-cache"}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return HTMLResponse(body, headers=headers)


def _or_error(page: Callable[[], Response]) -> Response:
    try:
        return page()
    except NotFoundError as error:
        return HTMLResponse(error_html("Not found", str(error)), 404)
    except UserError as error:
        return HTMLResponse(error_html("This page cannot be shown", str(error)), 422)


class UnderRoot:
    """Lets the pages of a request link to where the service is shown."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ROOT.set(scope.get("root_path", ""))
        await self.app(scope, receive, send)


def create_service(store: Store, settings: Settings, access: Access = Access()) -> FastAPI:  # noqa: B008
    """The API with the pages on it, compressed where the browser takes that."""
    app = create_app(
        store,
        settings,
        access=access,
        extra_routers=[router, login.router],
        mounts={"/static": Static()},
    )
    app.add_exception_handler(TokenNeeded, login.to_login)
    app.add_middleware(UnderRoot)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)
    return app

"""The pages as routes, and as part of the whole service. Each answers HTML, its errors too."""

from typing import Annotated

from fastapi import APIRouter, FastAPI, Path, Request
from fastapi.responses import HTMLResponse
from sqlalchemy.orm import Session
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headcount.api.app import create_app
from headcount.api.dependencies import LARGEST, SettingsDep, StoreDep
from headcount.api.security import Access, needs
from headcount.api.versions import job_version, of_sweep, sweeps_version
from headcount.dashboard import figure_files
from headcount.dashboard.html import compare_html, job_html, reference_html, sweep_html, sweeps_html
from headcount.dashboard.pages import login
from headcount.dashboard.pages import submission as submit
from headcount.dashboard.pages.compare_view import comparison
from headcount.dashboard.pages.errors import install_pages, user_error_page
from headcount.dashboard.pages.job_logs import log_text
from headcount.dashboard.pages.reference import reference_page
from headcount.dashboard.pages.sweep import choice_of, sweep_page, table_of
from headcount.dashboard.pages.sweeps import Lines, asked
from headcount.dashboard.rendering import ROOT
from headcount.dashboard.shared import complete, complete_job, page
from headcount.dashboard.static_files import Static
from headcount.orchestrator.artifacts.folder import open_artifacts
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store
from headcount.trainer.errors import UserError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

AttemptNumber = Annotated[int, Path(ge=1, le=LARGEST)]


@router.get("/", openapi_extra=needs("read"))
async def get_sweeps_page(request: Request) -> Response:
    """The list of sweeps, as the address filters and orders it."""

    def make(session: Session) -> str:
        wish = asked(dict(request.query_params))
        complete(request, wish.query())
        lines: Lines = request.app.state.sweep_lines
        return sweeps_html(lines.page(session, wish))

    return await page(request, sweeps_version, make)


@router.get("/sweeps/{sweep:path}", openapi_extra=needs("read"))
async def get_sweep_page(request: Request, sweep: str) -> Response:
    """One sweep. An address that leaves part of the view open leads to the complete one."""

    def make(session: Session) -> str:
        query = dict(request.query_params)
        table = table_of(session, sweep, query)
        complete(request, choice_of(table, query).query())
        read = open_artifacts(request.app.state.settings).read
        return sweep_html(sweep_page(session, sweep, query, read=read, table=table))

    return await page(request, of_sweep(sweep), make)


@router.get("/compare", openapi_extra=needs("read"))
async def get_compare_page(request: Request) -> Response:
    """Sweeps or cells side by side."""

    def make(session: Session) -> str:
        made = comparison(session, request.query_params.multi_items())
        complete(request, made.query())
        return compare_html(made)

    return await page(request, sweeps_version, make)


@router.get("/reference", openapi_extra=needs("read"))
async def get_reference_page(request: Request) -> Response:
    """Published figures beside ours."""

    def make(session: Session) -> str:
        made = reference_page(session, dict(request.query_params))
        complete(request, made.query())
        return reference_html(made)

    return await page(request, sweeps_version, make)


@router.get("/jobs/{job}", openapi_extra=needs("read"))
async def get_job_page(request: Request, job: str) -> Response:
    """One job. The beginning of its id, as commands print it, leads to the whole address."""
    read = open_artifacts(request.app.state.settings).read

    def version(session: Session) -> str:
        complete_job(session, job)
        return job_version(session, job)

    return await page(request, version, lambda session: job_html(session, job, read))


@router.get("/jobs/{job}/attempts/{number}/log", openapi_extra=needs("read"))
def get_log(store: StoreDep, settings: SettingsDep, job: str, number: AttemptNumber) -> Response:
    """What an attempt printed, as plain text."""
    try:
        with store.read() as session:
            text = log_text(session, job, number, open_artifacts(settings).read)
    except UserError as error:
        return user_error_page(error)
    return PlainTextResponse(text, headers={"Cache-Control": "no-store"})


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
        extra_routers=[figure_files.router, router, submit.router, login.router],
        mounts={"/static": Static()},
    )
    app.state.sweep_lines = Lines({})
    install_pages(app)
    app.add_middleware(UnderRoot)
    app.add_middleware(GZipMiddleware, minimum_size=1000, compresslevel=6)
    return app

"""Every figure of a page as a file, of the view that the query chooses."""

import re

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from headcount.api.answering import Body
from headcount.api.results import job_view
from headcount.api.security import needs
from headcount.api.versions import job_version, of_sweep, sweeps_version
from headcount.dashboard.exports.files import MEDIA_TYPES, file_of
from headcount.dashboard.pages.compare_view import comparison
from headcount.dashboard.pages.job import title_of
from headcount.dashboard.pages.job_figures import FOR_PAPER, job_figures
from headcount.dashboard.pages.sweep import figure_of, sweep_page
from headcount.dashboard.panel import Figure, named
from headcount.dashboard.shared import page
from headcount.orchestrator.artifacts.folder import open_artifacts

router = APIRouter(include_in_schema=False)


@router.get("/sweeps/{sweep:path}/figures/{file}", openapi_extra=needs("read"))
async def get_figure_file(request: Request, sweep: str, file: str) -> Response:
    """A figure of the view that the query chooses, by its name and form: `paired.table.tex`."""
    figure, _, form = file.partition(".")

    def make(session: Session) -> Body:
        read = open_artifacts(request.app.state.settings).read
        made = sweep_page(session, sweep, dict(request.query_params), read=read)
        return _file(figure_of(made, figure), form, f"{sweep[:80]}-{file}")

    return await page(request, of_sweep(sweep), make)


@router.get("/jobs/{job}/figures/{file}", openapi_extra=needs("read"))
async def get_job_figure(request: Request, job: str, file: str) -> Response:
    """A figure of a job."""
    figure, _, form = file.partition(".")

    def make(session: Session) -> Body:
        view = job_view(session, job)
        figures = job_figures(session, view, title_of(session, view))
        numbers = form in ("csv", "table.tex")
        found = named([one for one in figures if numbers or one.id in FOR_PAPER], figure)
        return _file(found, form, f"job-{job[:12]}-{file}")

    return await page(request, lambda session: job_version(session, job), make)


@router.get("/compare/figures/{file}", openapi_extra=needs("read"))
async def get_comparison_figure(request: Request, file: str) -> Response:
    """A figure of a comparison."""
    figure, _, form = file.partition(".")

    def make(session: Session) -> Body:
        made = comparison(session, request.query_params.multi_items())
        return _file(named(made.figures, figure), form, f"compare-{file}")

    return await page(request, sweeps_version, make)


def _file(figure: Figure, form: str, name: str) -> Body:
    content = file_of(figure, form)
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    headers = {"Content-Type": MEDIA_TYPES[form], "Content-Disposition": f'attachment; filename="{plain}"'}
    return Body(content, headers)

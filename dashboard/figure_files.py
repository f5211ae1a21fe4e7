"""Every figure of a sweep's page as a file, of the view that the query chooses."""

import re

from fastapi import APIRouter, Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from headcount.api.answering import Body, of_sweep
from headcount.api.security import needs
from headcount.dashboard.exports.files import MEDIA_TYPES, figure_of, file_of
from headcount.dashboard.shared import page
from headcount.dashboard.sweep_page import sweep_page
from headcount.orchestrator.artifacts.folder import open_artifacts

router = APIRouter(include_in_schema=False)


@router.get("/sweeps/{sweep:path}/figures/{file}", openapi_extra=needs("read"))
async def get_figure_file(request: Request, sweep: str, file: str) -> Response:
    """A figure of the view that the query chooses, by its name and form: `paired.table.tex`."""
    figure, _, form = file.partition(".")

    def make(session: Session) -> Body:
        read = open_artifacts(request.app.state.settings).read
        made = sweep_page(session, sweep, dict(request.query_params), read=read)
        content = file_of(figure_of(made, figure), form)
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{sweep[:80]}-{file}")
        return Body(
            content,
            {"Content-Type": MEDIA_TYPES[form], "Content-Disposition": f'attachment; filename="{name}"'},
        )

    return await page(request, of_sweep(sweep), make)

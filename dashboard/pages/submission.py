"""The routes by which a sweep is written and submitted in a browser, through the functions of REST."""

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from starlette.responses import RedirectResponse, Response

from headcount.api.callers import Caller, CallerDep
from headcount.api.dependencies import SettingsDep, StoreDep
from headcount.api.problems import Problem
from headcount.api.results import NotFoundError
from headcount.api.security import needs
from headcount.api.submission import read_spec, store_sweep
from headcount.dashboard.pages.errors import error_page
from headcount.dashboard.pages.login import Form
from headcount.dashboard.pages.submit import (
    MOST_CELLS,
    Checked,
    check,
    examples,
    first_text,
    numbered,
    trouble,
    written,
)
from headcount.dashboard.rendering import ROOT, render
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store
from headcount.trainer.errors import UserError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

NO_STORE = {"Cache-Control": "no-store"}


@router.get("/submit", openapi_extra=needs("read"))
def get_submit_page(request: Request, store: StoreDep, caller: CallerDep) -> Response:
    """The editor, with an example or the file of a sweep in it."""
    try:
        with store.read() as session:
            text = first_text(session, dict(request.query_params))
    except NotFoundError as error:
        return error_page(404, str(error))
    return _page(text, None, "submit" in caller.scopes, request.query_params.get("from"))


@router.post("/submit", openapi_extra=needs("submit"))
def post_sweep(store: StoreDep, settings: SettingsDep, caller: CallerDep, form: Form) -> Response:
    """What the form's `do` asks for: to `check` the file, as a part of the page; its `plan`, as the page
    again; else to submit it, and go on to its sweep.
    """
    text = written(form)
    if form.get("do") not in ("check", "plan"):
        return _submit(store, settings, caller, text)
    with store.read() as session:
        found = check(session, text, settings)
    if form["do"] == "plan":
        return _page(text, found, True)
    return HTMLResponse(render("_checked.html", found=found, most_cells=MOST_CELLS), headers=NO_STORE)


def _submit(store: Store, settings: Settings, caller: Caller, text: str) -> Response:
    try:
        with store.read() as session:
            planned = read_spec(session, text, settings)
        with store.write() as session:
            found = store_sweep(session, planned, caller)
    except (UserError, Problem) as error:
        status = error.status if isinstance(error, Problem) else 422
        return _page(text, Checked(trouble=trouble(error)), True, status=status)
    return RedirectResponse(f"{ROOT.get()}/sweeps/{quote(found.sweep, safe='')}", 303)


def _page(
    text: str, found: Checked | None, allowed: bool, source: str | None = None, status: int = 200
) -> Response:
    html = render(
        "submit.html",
        text=text,
        lines=numbered(text),
        examples=examples(),
        allowed=allowed,
        source=source,
        found=found,
        most_cells=MOST_CELLS,
    )
    return HTMLResponse(html, status, NO_STORE)

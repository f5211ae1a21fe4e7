"""The login of browsers: a token, shown once, becomes a cookie that no script can read."""

from datetime import timedelta
from typing import Annotated
from urllib.parse import parse_qs, quote, urlsplit

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse
from starlette.responses import RedirectResponse, Response

from headcount.api.callers import COOKIE, Caller, TokenNeeded, find_caller
from headcount.api.dependencies import StoreDep
from headcount.api.problems import Problem, answer_problem
from headcount.api.security import needs
from headcount.dashboard.rendering import ROOT, render
from headcount.orchestrator.store.tokens import close_login, find_token, open_login

LIFETIME = timedelta(days=7)
"""Of a login; its token may end it earlier."""

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


async def known_caller(request: Request) -> Caller | None:
    """Who asks, if that is somebody."""
    try:
        return await find_caller(request)
    except Problem:
        return None


Known = Annotated[Caller | None, Depends(known_caller)]


@router.get("/login", openapi_extra=needs("anyone"))
def get_login_page(request: Request, caller: Known) -> Response:
    """Where a browser shows its token, or who is logged in and the way out."""
    return _page(caller, 200, request.query_params.get("next", f"{ROOT.get()}/"))


async def read_form(request: Request) -> dict[str, str]:
    """The first value of each field of a form."""
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[0] for name, values in parse_qs(body, max_num_fields=10).items()}


Form = Annotated[dict[str, str], Depends(read_form)]


@router.post("/login", openapi_extra=needs("anyone"))
def log_in(request: Request, store: StoreDep, form: Form, caller: Known) -> Response:
    """Exchange a token for a cookie, and go on to the page that asked for it."""
    goal = form.get("next", f"{ROOT.get()}/")
    with store.read() as session:
        token = find_token(session, form.get("token", "").strip())
    if token is None:
        problem = "This token is mistyped, unknown, expired or revoked."
        return _page(caller, 401, goal, problem)
    with store.write() as session:
        text = open_login(session, token, LIFETIME)
    response = RedirectResponse(_local(goal), 303)
    response.set_cookie(
        COOKIE,
        text,
        max_age=int(LIFETIME.total_seconds()),
        httponly=True,
        samesite="lax",
        secure=request.url.scheme == "https",
    )
    return response


@router.post("/logout", openapi_extra=needs("anyone"))
def log_out(request: Request, store: StoreDep) -> Response:
    """End the login of this browser."""
    cookie = request.cookies.get(COOKIE)
    if cookie is not None:
        with store.write() as session:
            close_login(session, cookie)
    response = RedirectResponse(f"{ROOT.get()}/login", 303)
    response.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return response


async def to_login(request: Request, error: Exception) -> Response:
    """Who asks for a page is sent to the login; who asks for data gets the problem."""
    assert isinstance(error, TokenNeeded)
    root = ROOT.get()
    if request.scope["path"].removeprefix(root).startswith("/api/"):
        return answer_problem(request, error)
    goal = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"{root}/login?next={quote(goal, safe='')}", 303, {"Cache-Control": "no-store"})


def _page(caller: Caller | None, status: int, goal: str, problem: str = "") -> Response:
    html = render("login.html", caller=caller, goal=_local(goal), problem=problem)
    return HTMLResponse(html, status, {"Cache-Control": "no-store"})


def _local(goal: str) -> str:
    """The path to go to after the login: of this service, whatever a link to the login says."""
    try:
        parts = urlsplit(goal)
    except ValueError:  # such as //[
        return "/"
    ours = goal.startswith("/") and not goal.startswith("//") and not (parts.scheme or parts.netloc)
    return goal if ours and goal.isprintable() and "\\" not in goal else "/"

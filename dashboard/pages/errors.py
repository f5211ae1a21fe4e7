"""Errors as pages for those who asked for a page; who asks for data gets the problem."""

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response

from headcount.api.callers import TokenNeeded
from headcount.api.problems import Problem, answer_http_error, answer_problem, answer_user_error
from headcount.api.results import NotFoundError
from headcount.dashboard.pages.login import to_login
from headcount.dashboard.rendering import ROOT, render
from headcount.orchestrator.store import StoreUnavailable
from headcount.trainer.errors import UserError

TITLES = {
    403: "Not allowed",
    404: "Not found",
    405: "Not possible here",
    413: "Too large",
    503: "The store does not answer",
}


def install_pages(app: FastAPI) -> None:
    """Let errors of pages be pages."""
    app.add_exception_handler(TokenNeeded, to_login)
    app.add_exception_handler(Problem, _problem)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(UserError, _user_error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if not _wants_page(request):
        return answer_http_error(request, error)
    words = {404: "There is nothing at this address.", 413: "This is more than the service takes."}
    return error_page(error.status_code, words.get(error.status_code, str(error.detail)))


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    if not _wants_page(request):
        return answer_problem(request, error)
    return error_page(error.status, error.detail)


async def _user_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UserError)
    return user_error_page(error) if _wants_page(request) else answer_user_error(request, error)


def user_error_page(error: UserError) -> Response:
    """The page of what cannot be shown, or not now."""
    if isinstance(error, NotFoundError):
        return error_page(404, str(error))
    return error_page(503 if isinstance(error, StoreUnavailable) else 422, str(error))


def error_page(status: int, words: str) -> Response:
    """What is wrong, and what to do next."""
    title = TITLES.get(status, "This page cannot be shown")
    words = f"{words[:1].upper()}{words[1:]}" + ("" if words.endswith((".", "?")) else ".")
    html = render("error.html", title=title, message=words, may_log_in=status == 403)
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": "5"} if status == 503 else {})
    return HTMLResponse(html, status, headers)


def _wants_page(request: Request) -> bool:
    """Whether a browser asks for something to look at."""
    path = request.scope["path"].removeprefix(ROOT.get())
    return not path.startswith("/api/") and "text/html" in request.headers.get("accept", "")

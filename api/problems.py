"""Every error as RFC 9457 problem details, `application/problem+json`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Scope

from headcount.api.formats import to_json
from headcount.api.problem_types import TYPES
from headcount.api.results import NotFoundError
from headcount.orchestrator.store import StoreUnavailable
from headcount.trainer.errors import UserError

MEDIA_TYPE = "application/problem+json"

TYPES_PATH = "/api/v1/problems"

_NEWER_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""RFC 9110's, which older Pythons do not know."""


class FieldProblem(BaseModel):
    """What is wrong with one part of the request."""

    where: str = Field(description="Such as `query.limit` or `body.axes`.")
    problem: str


class ProblemDetail(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str = Field(description="Where the kind of error is explained.")
    title: str
    status: int
    detail: str = Field(description="What happened, and what to do next.")
    instance: str = Field(description="The path that was asked for.")
    code: str = Field(description="The kind of error, for programs.")
    errors: list[FieldProblem]
    request_id: str = Field(description="Also in the header X-Request-ID and in the service's log.")


class Problem(Exception):
    """An answer other than the one hoped for, with its status."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers


def problem_response(
    scope: Scope,
    status: int,
    code: str,
    detail: str,
    *,
    errors: list[dict[str, str]] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The answer for an error in the request that `scope` describes."""
    body: dict[str, Any] = {
        "type": f"{scope.get('root_path', '')}{TYPES_PATH}/{code}" if code in TYPES else "about:blank",
        "title": _title(status),
        "status": status,
        "detail": detail,
        "instance": scope["path"],
        "code": code,
        "errors": errors or [],
        "request_id": scope.get("state", {}).get("request_id", ""),
    }
    return Response(to_json(body), status, headers, media_type=MEDIA_TYPE)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The documentation of a route's errors: these, and those that any request may meet."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetail"}}}
    return {
        status: {"description": _title(status), "content": content}
        for status in sorted({400, 401, 403, 422, 429, 500, 503, *statuses})
    }


def _title(status: int) -> str:
    return _NEWER_TITLES.get(status) or HTTPStatus(status).phrase


def install_handlers(app: FastAPI) -> None:
    """Answer every error of the application with problem details."""
    app.add_exception_handler(Problem, answer_problem)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(UserError, answer_user_error)


def answer_problem(request: Request, error: Exception) -> Response:
    """The answer for a `Problem`."""
    assert isinstance(error, Problem)
    return problem_response(request.scope, error.status, error.code, error.detail, headers=error.headers)


def answer_http_error(request: Request, error: Exception) -> Response:
    """The answer for an error of the framework, such as a path that is not there."""
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = {
        404: "there is nothing at this path",
        405: f"{request.method} is not possible here; see the header Allow",
        413: "the body is larger than the service takes",
    }.get(status, str(error.detail))
    code = _title(status).lower().replace(" ", "_")
    headers = dict(error.headers or {})
    if headers.get("Allow") == "GET":
        headers["Allow"] = "GET, HEAD"
    return problem_response(request.scope, status, code, detail, headers=headers)


def _invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    errors = [{"where": ".".join(map(str, e["loc"])), "problem": _sentence(e["msg"])} for e in error.errors()]
    detail = "; ".join(f"{e['where']}: {e['problem']}" for e in errors)
    return problem_response(request.scope, 422, "invalid_request", detail, errors=errors)


def _sentence(message: str) -> str:
    return "unknown parameter" if message == "Extra inputs are not permitted" else message


def answer_user_error(request: Request, error: Exception) -> Response:
    """The answer for a mistake of the user's, or a store that does not answer."""
    if isinstance(error, NotFoundError):
        return problem_response(request.scope, 404, "not_found", str(error))
    if isinstance(error, StoreUnavailable):
        return problem_response(
            request.scope, 503, "store_unavailable", str(error), headers={"Retry-After": "5"}
        )
    return problem_response(request.scope, 422, "not_possible", str(error))

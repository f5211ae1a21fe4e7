"""From where the service may be spoken to, what each route needs, and what every answer carries.

Host and Origin are checked even on the loopback interface, because a page of another site can make a browser
send requests there. Every route states the scope that it needs; a route that states none is denied.
"""

import logging
import math
import re
import secrets
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import anyio
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headcount.api.limits import MAX_AT_ONCE, Rate
from headcount.api.problems import problem_response

RouteScope = Literal["anyone", "read", "submit", "admin"]
ROUTE_SCOPES: tuple[RouteScope, ...] = ("anyone", "read", "submit", "admin")
"""What a route may declare: the scopes of tokens, or that it shows and changes nothing that is kept."""

MAX_BODY = 1_000_000
"""Bytes of a request."""

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src-elem 'self'; style-src-attr 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer. Inline style attributes are allowed for plotly's drawing; inline scripts are not."""

log = logging.getLogger("headcount.api")


@dataclass(frozen=True)
class Access:
    """From where the service may be spoken to."""

    hosts: tuple[str, ...] = LOOPBACK_HOSTS
    """Names, without port, that a request may be addressed to. Only pages of the same host may ask."""
    open: bool = True
    """Whether everyone there has every scope as long as no token was ever made."""
    rate: float = 0.0
    """Requests a second that one address may send on average; 0 for any number."""


LOOPBACK = Access()
"""This machine alone."""


def scope_of(route: Any) -> RouteScope | None:
    """The scope that a route declares, None where it declares none."""
    declared = (getattr(route, "openapi_extra", None) or {}).get("x-scope")
    return declared if declared in ROUTE_SCOPES else None


def needs(scope: RouteScope, **openapi: Any) -> dict[str, Any]:
    """How a route declares its scope: `@router.get(path, openapi_extra=needs("read"))`."""
    security: list[dict[str, list[str]]] = [] if scope == "anyone" else [{"bearer": []}]
    return {"x-scope": scope, "security": security, **openapi}


class Refusal(NamedTuple):
    """Why a request goes no further."""

    status: int
    code: str
    detail: str
    retry_after: str | None = None
    """Seconds, where asking again later may help."""


class Guard:
    """The outermost layer: checks Host, Origin and limits, names the request, adds the headers, hides faults.

    HEAD is answered here for every path, as GET without the body.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app = app
        self.access = access
        self.rate = Rate(access.rate)
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = secrets.token_hex(8)
        is_head = scope["method"] == "HEAD"
        scope.setdefault("state", {}).update(request_id=request_id, is_head=is_head)
        if is_head:
            scope = {**scope, "method": "GET"}
        started = ended = False

        async def send_guarded(message: Message) -> None:
            nonlocal started, ended
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers["X-Request-ID"] = request_id
            elif is_head:
                if ended:
                    return
                ended, message = True, {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        received = 0

        async def receive_limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > MAX_BODY:
                raise HTTPException(413)
            return message

        refusal = _refusal(Headers(scope=scope), self.access) or self._limit(scope)
        if refusal:
            later = {"Retry-After": refusal.retry_after} if refusal.retry_after else None
            answer = problem_response(scope, refusal.status, refusal.code, refusal.detail, headers=later)
            await answer(scope, receive, send_guarded)
            return
        self.under_way += 1
        try:
            await self.app(scope, receive_limited, send_guarded)
        except Exception as error:
            if started and _client_left(error):
                return
            log.exception("request %s: %s %r failed", request_id, scope["method"], scope["path"])
            if started:
                raise
            detail = f"a fault of the service; its log has the cause under {request_id}"
            await problem_response(scope, 500, "internal", detail)(scope, receive, send_guarded)
        finally:
            self.under_way -= 1

    def _limit(self, scope: Scope) -> Refusal | None:
        """For a client that asks too often, or at a time when too many ask."""
        if self.under_way >= MAX_AT_ONCE:
            return Refusal(503, "too_busy", "too many requests are under way; ask again in a moment", "1")
        wait = self.rate.wait((scope.get("client") or ("", 0))[0])
        if wait:
            detail = f"more than {self.access.rate:g} requests a second; ask again in {math.ceil(wait)} s"
            return Refusal(429, "too_many_requests", detail, str(math.ceil(wait)))
        return None


def _client_left(error: BaseException) -> bool:
    """Whether a stream ended because nobody reads it, which the framework raises as an error of its pipe."""
    if isinstance(error, BaseExceptionGroup):
        return all(_client_left(inner) for inner in error.exceptions)
    return isinstance(error, anyio.BrokenResourceError)


def _refusal(headers: Headers, access: Access) -> Refusal | None:
    """For a Host or Origin that we do not serve, or a body announced too large."""
    host = headers.get("host", "")
    if _name(host) not in access.hosts:
        return Refusal(400, "host_not_allowed", f"requests to the host {host[:200]!r} are not answered here")
    origin = headers.get("origin")
    if origin is not None and origin not in (f"http://{host}", f"https://{host}"):
        return Refusal(403, "origin_not_allowed", f"pages of {origin[:200]!r} may not use this service")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY:
        return Refusal(413, "content_too_large", f"a body may have {MAX_BODY} bytes at most")
    return None


_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([\w.-]+))(?::\d{1,5})?", re.ASCII | re.IGNORECASE)
"""RFC 9110, section 7.2: a name or address and perhaps a port. A URL may hold more, such as a user."""


def _name(host: str) -> str:
    """The name in a Host header, without its port; empty where it is none."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else ""

"""Who asks, and what they may do: the one dependency of the whole application.

A credential is a token in `Authorization: Bearer`, or the cookie of a browser that logged in with one. Before
the first token is made, whoever Host and Origin let in may do everything, if the service is open at all.
"""

import contextlib
import re
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from anyio import to_thread
from fastapi import Depends, Request
from sqlalchemy.orm import Session

from headcount.api.dependencies import SWEEP_NAME
from headcount.api.looks import Looks
from headcount.api.problems import Problem
from headcount.api.security import Access, scope_of
from headcount.api.versions import SweepLook
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import now, user_name
from headcount.orchestrator.store.models import Token
from headcount.orchestrator.store.tokens import (
    SCOPES,
    USE_GRAIN,
    any_token,
    find_login,
    find_token,
    is_usable,
    is_well_formed,
    note_use,
)
from headcount.trainer.errors import UserError

COOKIE = "headcount"
"""The cookie of a browser that logged in."""


class TokenNeeded(Problem):
    """401: nobody is known by this request."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(401, code, detail, {"WWW-Authenticate": "Bearer"})


@dataclass(frozen=True)
class Caller:
    """Who asks."""

    name: str
    """Of the token; of the service's own user where none is asked for."""
    scopes: frozenset[str]
    token_id: int | None = None


async def check_scope(request: Request) -> None:
    """Deny a route that declares no scope, and whoever lacks the scope that it declares (401, 403)."""
    scope = scope_of(request.scope.get("route"))
    if scope is None:
        raise Problem(403, "scope_missing", "no scope is declared for this path, so that nobody may use it")
    if scope == "anyone":
        return
    caller = await find_caller(request)
    if scope not in caller.scopes:
        raise Problem(
            403,
            "scope_insufficient",
            f"this needs a token with the scope {scope}, which {caller.name!r} lacks",
        )
    request.state.caller = caller


@cache
def _own_user() -> Caller:
    return Caller(user_name(), frozenset(SCOPES))


def _put_versions(request: Request, looks: Looks) -> None:
    """Have the store asked for the versions of the sweep, with which its answer begins, when it is asked who
    the caller is."""
    sweep = request.path_params.get("sweep")
    if request.method in ("GET", "HEAD") and isinstance(sweep, str) and re.fullmatch(SWEEP_NAME, sweep):
        request.state.versions = looks.put(SweepLook(sweep))


async def find_caller(request: Request) -> Caller:
    """Who asks by this request. Raises `TokenNeeded` where that is nobody."""
    access: Access = request.app.state.access
    header = request.headers.get("authorization")
    cookie = request.cookies.get(COOKIE)

    def look(session: Session) -> Token | None:
        if header is not None:
            return find_token(session, _bearer(header))
        return find_login(session, cookie) if cookie is not None else None

    looks: Looks = request.app.state.looks
    shows_nothing = header is None and cookie is None
    if shows_nothing and not access.open:
        raise _unknown(header)
    _put_versions(request, looks)
    token = None if shows_nothing else await looks.ask(look)
    if token is None and header is None and access.open and not await looks.ask(any_token):
        return _own_user()
    if token is None:
        raise _unknown(header)
    if header is None:
        _check_origin(request)
    if token.last_used is None or now() - token.last_used > USE_GRAIN:
        await to_thread.run_sync(_note_use, request.app.state.store, token)
    return Caller(token.name, frozenset(token.scopes), token.id)


def _bearer(header: str) -> str:
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""


def _unknown(header: str | None) -> TokenNeeded:
    if header is None:
        return TokenNeeded(
            "token_needed", "send a token in the header `Authorization: Bearer …`, or log in at /login"
        )
    if not is_well_formed(_bearer(header)):
        return TokenNeeded("token_mistyped", "the token is not one of ours: it is mistyped or incomplete")
    return TokenNeeded("token_unknown", "the token is unknown, expired or revoked; ask for a new one")


def _check_origin(request: Request) -> None:
    """A page of another site can make a browser send our cookie; only ours names our own Origin.

    A foreign Origin is refused before any route; here it must not be missing either.
    """
    if request.method not in ("GET", "HEAD") and "origin" not in request.headers:
        raise Problem(403, "origin_missing", "a change that is asked for with a cookie must name its Origin")


def _note_use(store: Store, token: Token) -> None:
    with contextlib.suppress(UserError), store.write() as session:  # no answer fails for it
        note_use(session, token.id)


def may_go_on(session: Session, caller: Caller) -> bool:
    """Whether a long answer may go on: the token that it was begun with is neither revoked nor expired."""
    return caller.token_id is None or is_usable(session, caller.token_id)


async def get_caller(request: Request) -> Caller:
    """Who asks, as `check_scope` found them."""
    caller: Caller = request.state.caller
    return caller


CallerDep = Annotated[Caller, Depends(get_caller)]

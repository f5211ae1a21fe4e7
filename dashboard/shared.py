"""Pages as answers that are made once for everyone who asks for the same, and known by their ETag before."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from headcount.api.answering import Body, answer
from headcount.dashboard.pages.errors import user_error_page
from headcount.trainer.errors import UserError

MEDIA_TYPE = "text/html; charset=utf-8"


class Incomplete(Exception):
    """An address that leaves part of the view open: `query` is the complete one."""

    def __init__(self, query: str) -> None:
        super().__init__(query)
        self.query = query


async def page(
    request: Request, version_of: Callable[[Session], str], make: Callable[[Session], str | Body]
) -> Response:
    """The page or file that `make` writes of the store, its error as a page, or the way to the whole address.

    `version_of` tells the version of all data that `make` reads; of the code that writes it we see here.
    """
    try:
        return await answer(
            request,
            lambda session: f"{version_of(session)} {_pages_version()}",
            lambda session: _body(make(session)),
            form="html",
        )
    except Incomplete as found:
        return Response(status_code=307, headers={"Location": f"?{found.query}"})
    except UserError as error:
        return user_error_page(error)


def _body(made: str | Body) -> Body:
    return Body(made.encode(), {"Content-Type": MEDIA_TYPE}) if isinstance(made, str) else made


def complete(request: Request, query: str) -> None:
    """Raises `Incomplete` where the address is not `query`: a link then means the same tomorrow."""
    if request.url.query != query:
        raise Incomplete(query)


@cache
def _pages_version() -> str:
    """A hash of the code and the templates that write pages."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(f for f in root.rglob("*") if f.suffix in (".py", ".html", ".css", ".js")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

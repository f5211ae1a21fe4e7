"""Pages as answers that are made once for everyone who asks for the same, and known by their ETag before."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path

from fastapi import Request
from sqlalchemy.orm import Session
from starlette.responses import Response

from headcount.api.answering import Body, answer
from headcount.api.results import NotFoundError
from headcount.dashboard.pages.errors import user_error_page
from headcount.orchestrator.following.overview import find_job
from headcount.trainer.errors import UserError

MEDIA_TYPE = "text/html; charset=utf-8"

DIGITS = 64
"""Of a job's id."""


class Incomplete(Exception):
    """An address that leaves part of the view open: `address` is the complete one, relative to it."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


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
        return Response(status_code=307, headers={"Location": found.address})
    except UserError as error:
        return user_error_page(error)


def _body(made: str | Body) -> Body:
    return Body(made.encode(), {"Content-Type": MEDIA_TYPE}) if isinstance(made, str) else made


def complete(request: Request, query: str) -> None:
    """Raises `Incomplete` where the address is not `query`: a link then means the same tomorrow."""
    if request.url.query != query:
        raise Incomplete(f"?{query}")


def complete_job(session: Session, job_id: str) -> None:
    """Raises `Incomplete` where `job_id` is the beginning of an id, `NotFoundError` of none or of several."""
    if len(job_id) < DIGITS:
        try:
            raise Incomplete(find_job(session, job_id).id)
        except UserError as error:
            raise NotFoundError(str(error)) from None


@cache
def _pages_version() -> str:
    """A hash of the code and the templates that write pages."""
    root = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(f for f in root.rglob("*") if f.suffix in (".py", ".html", ".css", ".js")):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]

"""Strong ETags that are known before anything is computed."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fastapi import Request

import headcount
from headcount.api.problems import Problem

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "The ETag in If-None-Match is still that of the answer."}
}
"""The documentation of routes that call `check_cached`."""


class NotModified(Exception):
    """The client has the answer already. Carries the headers of the 304."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.headers = headers


def check_cached(request: Request, version: str, form: str = "json") -> dict[str, str]:
    """The headers of an answer made from the data `version`. Raises `NotModified` where the client has it."""
    headers = validators(request, version, form)
    etag = headers["ETag"]
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}:
        raise NotModified(headers)
    return headers


def validators(request: Request, version: str, form: str) -> dict[str, str]:
    """The headers by which a client knows an answer again."""
    etag = etag_of(version, request.scope["path"], normal_query(request), form)
    return {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Accept"}


def normal_query(request: Request) -> str:
    """The query, the same for parameters in any order."""
    return urlencode(sorted(request.query_params.multi_items()))


def etag_of(version: str, path: str, query: str = "", form: str = "json") -> str:
    """A hash of the data's version, path, query, format and code; the client's credential is not in it."""
    parts = (version, path, query, form, code_version())
    return f'"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"'


def check_matches(if_match: str | None, etag: str) -> None:
    """Refuse a change of something that is not as the client saw it (412), or that does not say so (428)."""
    if if_match is None:
        raise Problem(
            428,
            "if_match_needed",
            "say which state you change: If-Match with the sweep's ETag, or `*` for any",
        )
    if if_match.strip() != "*" and etag not in {tag.strip() for tag in if_match.split(",")}:
        raise Problem(412, "changed_meanwhile", "the sweep has changed since; look again, then decide")


@cache
def code_version() -> str:
    """A hash of the code that makes the numbers, so that an upgrade is never answered from a cache."""
    root = Path(headcount.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(f for room in ("api", "sweeps") for f in (root / room).rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()

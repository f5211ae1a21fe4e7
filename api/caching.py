"""Strong ETags that are known before anything is computed."""

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from fastapi import Request

import headcount


class NotModified(Exception):
    """The client has the answer already. Carries the headers of the 304."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        super().__init__()
        self.headers = headers


def check_cached(request: Request, version: str, form: str = "json") -> dict[str, str]:
    """The headers of an answer made from the data `version`. Raises `NotModified` where the client has it.

    The ETag is a hash of the version, path, query, format and code; the client's credential is not in it.
    """
    query = urlencode(sorted(request.query_params.multi_items()))
    parts = (version, request.scope["path"], query, form, _code_version())
    etag = f'"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Vary": "Accept"}
    known = request.headers.get("if-none-match", "")
    if known.strip() == "*" or etag in {tag.strip().removeprefix("W/") for tag in known.split(",")}:
        raise NotModified(headers)
    return headers


@cache
def _code_version() -> str:
    """A hash of the code that makes the numbers, so that an upgrade is never answered from a cache."""
    root = Path(headcount.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(f for room in ("api", "sweeps") for f in (root / room).rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()

"""The static files over HTTP: kept for ever by browsers, and compressed once."""

import gzip
from functools import cache
from pathlib import Path

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from headcount.dashboard.rendering import STATIC

COMPRESSED = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Static(StaticFiles):
    """The files of `static/`. An address that names the content's hash may be kept for ever."""

    def __init__(self) -> None:
        super().__init__(directory=STATIC)

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        if scope["query_string"].startswith(b"v="):
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        kind = COMPRESSED.get(Path(path).suffix)
        if kind and response.status_code == 200 and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            kept = {
                k: v for k, v in response.headers.items() if k in ("cache-control", "etag", "last-modified")
            }
            headers = {**kept, "Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(_compressed(path), headers=headers, media_type=kind)
        return response


@cache
def _compressed(name: str) -> bytes:
    """plotly.js takes 60 ms to compress, so it is done once."""
    return gzip.compress((STATIC / name).read_bytes())

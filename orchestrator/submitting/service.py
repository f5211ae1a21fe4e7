"""A Headcount service as a client sees it: sweeps are sent and followed over its REST API."""

import json
import secrets
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import Any, NoReturn

from headcount import __version__
from headcount.trainer.errors import UserError

TIMEOUT_SECONDS = 60.0
MOST_BYTES = 16 * 2**20
"""Of an answer: a service that sends more is something else."""


class Unreachable(UserError):
    """The service did not answer; the same request may succeed later."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the token to wherever it points."""

    def redirect_request(self, request: Any, *answer: Any) -> None:
        return None


class Service:
    """The service at `url`, asked with `token` where one is given."""

    def __init__(self, url: str, token: str | None) -> None:
        """Raises `UserError` for an address that is none."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UserError(f"{url!r} is no service's address; expected one such as http://127.0.0.1:8321")
        if parts.username or parts.password:
            raise UserError("give the token in HEADCOUNT_TOKEN or --token, not in the address")
        self.url = url.rstrip("/").removesuffix("/api/v1")
        self._token = token
        self._opener = urllib.request.build_opener(_NoRedirect)

    def submit(self, text: str) -> dict[str, Any]:
        """Send the sweep in `text`; what the service found of it. Raises `UserError` with what it says.

        The request carries a key of its own, so that it is sent once more, and done once, where the
        connection breaks.
        """
        headers = {"Content-Type": "application/yaml", "Idempotency-Key": secrets.token_hex(16)}
        try:
            return self._ask("/api/v1/sweeps", text.encode(), headers)
        except Unreachable:
            return self._ask("/api/v1/sweeps", text.encode(), headers)

    def sweep(self, name: str) -> dict[str, Any]:
        """How far a sweep is. Raises `UserError`."""
        return self._ask(f"/api/v1/sweeps/{urllib.parse.quote(name, safe='')}", None, {})

    def _ask(self, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        headers = {**headers, "Accept": "application/json", "User-Agent": f"headcount/{__version__}"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        request = urllib.request.Request(self.url + path, data=body, headers=headers)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                content = answer.read(MOST_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error.code, error.read(MOST_BYTES))
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise Unreachable(f"the service at {self.url} does not answer: {reason}") from error
        except ValueError as error:  # a token that no header can hold
            raise UserError(f"cannot ask {self.url}: {error}") from error
        try:
            value = json.loads(content)
            assert isinstance(value, dict)
        except (ValueError, AssertionError) as error:
            raise UserError(f"{self.url}{path} is no Headcount service: it answers no JSON object") from error
        return value

    def _refused(self, status: int, content: bytes) -> NoReturn:
        try:
            problem = json.loads(content)
            detail = str(problem.get("detail") or problem["title"])
        except (ValueError, KeyError, AttributeError):
            detail = f"status {status}, without a reason"
        hint = ""
        if status == 401:
            hint = "; set HEADCOUNT_TOKEN to a token, which 'headcount token create' makes there"
        raise UserError(f"the service at {self.url} refuses: {detail}{hint}")

"""Nothing is open that does not say so, and nothing answers a page of another site."""

import re
from collections.abc import Iterator

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute, RouteContext, iter_route_contexts
from fastapi.testclient import TestClient
from sqlalchemy import create_engine
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from headcount.api.app import create_app
from headcount.api.security import HEADERS, ROUTE_SCOPES, Access, needs, scope_of
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


@pytest.fixture
def settings(tmp_path) -> Settings:  # type: ignore[no-untyped-def]
    return Settings(tmp_path, "sqlite://", tmp_path)


@pytest.fixture
def lone() -> Store:
    """A store that no refused request may reach: it has no tables."""
    return Store(create_engine("sqlite://"))


def routes_of(app: FastAPI) -> Iterator[RouteContext]:
    return iter_route_contexts(app.routes)


def test_every_route_declares_its_scope(lone: Store, settings: Settings) -> None:
    app = create_app(lone, settings)
    walked = list(routes_of(app))
    assert len(walked) > 15
    for route in walked:
        assert isinstance(route.original_route, APIRoute), f"{route.path} is outside the check of scopes"
        assert scope_of(route.original_route) in ROUTE_SCOPES, f"{route.path} declares no scope"
        writes = (route.methods or set()) - {"GET", "HEAD"}
        assert not writes or scope_of(route.original_route) != "read", f"{route.path} writes with `read`"


def test_a_route_without_a_scope_is_denied_in_every_method(lone: Store, settings: Settings) -> None:
    reached = []
    router = APIRouter()

    @router.api_route("/open", methods=list(METHODS))
    def forgotten() -> None:
        reached.append("forgotten")

    @router.get("/odd", openapi_extra={"x-scope": "everything"})
    def unknown_scope() -> None:
        reached.append("unknown scope")

    @router.get("/stated", openapi_extra=needs("anyone"))
    def stated() -> str:
        return "yes"

    client = TestClient(create_app(lone, settings, extra_routers=[router]), base_url="http://127.0.0.1")
    for method in METHODS:
        answer = client.request(method, "/open")
        assert answer.status_code == 403, method
        assert method == "HEAD" or answer.json()["code"] == "scope_missing"
    assert client.get("/odd").status_code == 403
    assert client.get("/stated").json() == "yes"
    assert reached == []


def test_no_method_but_the_declared_one_answers(lone: Store, settings: Settings) -> None:
    app = create_app(lone, settings)
    client = TestClient(app, base_url="http://127.0.0.1")
    declared: dict[str, set[str]] = {}
    for route in routes_of(app):
        path = re.sub(r"\{[^}]*\}", "1", route.path or "")
        declared.setdefault(path, set()).update(route.methods or set())
    for path, methods in declared.items():
        methods |= {"HEAD"} if "GET" in methods else set()
        for method in set(METHODS) - methods:
            assert client.request(method, path).status_code == 405, (method, path)


HOSTILE = (
    *("evil.example", "127.0.0.1.evil.example", "", "[::1", "localhost@evil"),
    *("user@127.0.0.1", "evil\\@127.0.0.1", "127.0.0.1#@evil", "127.0.0.1/x", "127.0.0.1, evil"),
    *("127.0.0.1:", "127.0.0.1:port", "127.0.0.1:999999"),
)


@pytest.mark.parametrize("host", HOSTILE)
def test_an_unknown_host_is_refused(lone: Store, settings: Settings, host: str) -> None:
    client = TestClient(create_app(lone, settings), base_url="http://127.0.0.1")
    answer = client.get("/api/v1/sweeps", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "host_not_allowed")


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost", "LOCALHOST:1", "[::1]:8321", "box.lan"])
def test_a_known_host_is_answered(settings: Settings, lone: Store, host: str) -> None:
    access = Access(hosts=(*Access().hosts, "box.lan"))
    client = TestClient(create_app(lone, settings, access=access), base_url="http://127.0.0.1")
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999"])
def test_pages_of_other_sites_are_refused(lone: Store, settings: Settings, method: str, origin: str) -> None:
    client = TestClient(create_app(lone, settings), base_url="http://127.0.0.1:8321")
    answer = client.request(method, "/healthz", headers={"Origin": origin})
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_our_own_pages_are_answered(lone: Store, settings: Settings) -> None:
    client = TestClient(create_app(lone, settings), base_url="http://127.0.0.1:8321")
    for origin in ("http://127.0.0.1:8321", "https://127.0.0.1:8321"):  # the second behind a proxy with TLS
        assert client.get("/healthz", headers={"Origin": origin}).status_code == 200


def test_every_answer_carries_the_headers(lone: Store, settings: Settings) -> None:
    mounts = {"/static": PlainTextResponse("body {}")}
    app = create_app(lone, settings, mounts=mounts)
    assert any(isinstance(r.original_route, Mount) for r in routes_of(app))
    client = TestClient(app, base_url="http://127.0.0.1")
    answers = [
        client.get("/healthz"),
        client.get("/static/page.css"),
        client.get("/nowhere"),
        client.post("/healthz"),
        client.get("/healthz?x=1"),
        client.get("/api/v1/sweeps"),  # the store has no tables: our fault
        client.get("/healthz", headers={"Host": "evil.example"}),
        client.post("/api/v1/sweeps", content=b"x" * 2_000_000),
    ]
    assert [a.status_code for a in answers] == [200, 200, 404, 405, 422, 500, 400, 413]
    for answer in answers:
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert len({a.headers["x-request-id"] for a in answers}) == len(answers)


def test_a_body_is_limited_though_its_length_is_not_announced(client: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(30):
            yield b"x" * 100_000

    answer = client.post("/api/v1/sweeps", content=pieces(), headers={"Content-Type": "application/yaml"})
    assert (answer.status_code, answer.json()["code"]) == (413, "content_too_large")

"""Who may do what: without a token everything until the first is made, and from then on what it says."""

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from builders import build_sweep
from fastapi import APIRouter, FastAPI
from fastapi.routing import RouteContext, iter_route_contexts
from fastapi.testclient import TestClient
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from headcount.api.app import create_app
from headcount.api.callers import COOKIE
from headcount.api.routes import events
from headcount.api.security import Access, needs, scope_of
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Event, Sweep, Token
from headcount.orchestrator.store.tokens import (
    SCOPES,
    TokenScope,
    create_token,
    find_token,
    open_login,
    revoke_token,
)

ORIGIN = {"Origin": "http://127.0.0.1"}
YAML = "name: sent\njob: {train: {steps: 40}}\naxes: {train.peak_lr: [1e-3, 1e-4]}\nseeds: [0]\n"


def make(store: Store, name: str, scope: TokenScope, hours: int | None = None) -> str:
    until = None if hours is None else now() + timedelta(hours=hours)
    with store.write() as session:
        return create_token(session, name, scope, expires=until, by="tester")


def bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def cookie_of(store: Store, text: str) -> str:
    with store.write() as session:
        token = find_token(session, text)
        assert token is not None
        return open_login(session, token, timedelta(hours=1))


def routes_of(app: FastAPI) -> Iterator[tuple[str, str, str]]:
    """Method, path with something in its places, and scope of every route."""
    route: RouteContext
    for route in iter_route_contexts(app.routes):
        path = re.sub(r"\{[^}]*\}", "1", route.path or "")
        scope = scope_of(route.original_route)
        assert scope is not None
        if path.endswith("/events"):
            path += "?follow=false"
        for method in route.methods or ():
            yield method, path, scope


def test_no_route_answers_without_a_credential_or_with_a_lower_scope(
    store: Store, app: FastAPI, client: TestClient
) -> None:
    assert client.get("/api/v1/sweeps").status_code == 200
    texts = {scope: make(store, scope, scope) for scope in SCOPES}
    walked = list(routes_of(app))
    assert {scope for *_, scope in walked} >= {"anyone", "read", "submit"}
    for method, path, scope in walked:
        answer = client.request(method, path)
        if scope == "anyone":
            assert answer.status_code not in (401, 403), path
            continue
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (method, path)
        assert answer.json()["code"] == "token_needed"
        for held in SCOPES:
            answer = client.request(method, path, headers=bearer(texts[held]))
            enough = scope in SCOPES[: SCOPES.index(held) + 1]
            assert (answer.status_code == 403) == (not enough), (method, path, held)
            assert answer.status_code != 401
            if not enough:
                assert answer.json()["code"] == "scope_insufficient"


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ("Bearer hc_nonsense", "token_mistyped"),
        ("Basic YTpi", "token_mistyped"),
        ("Bearer", "token_mistyped"),
        ("Bearer hc_é", "token_mistyped"),
    ],
)
def test_a_credential_that_is_none_is_never_ignored(client: TestClient, header: str, code: str) -> None:
    answer = client.get("/api/v1/sweeps", headers={"Authorization": header.encode()})
    assert (answer.status_code, answer.json()["code"]) == (401, code)


def test_tokens_end_by_time_and_by_revocation(store: Store, client: TestClient) -> None:
    old, young = make(store, "old", "read", -1), make(store, "young", "read", 1)
    assert client.get("/api/v1/sweeps", headers=bearer(young)).status_code == 200
    with store.write() as session:
        revoke_token(session, "young", by="tester")
    for text in (old, young):
        answer = client.get("/api/v1/sweeps", headers=bearer(text))
        assert (answer.status_code, answer.json()["code"]) == (401, "token_unknown")
    assert client.get("/api/v1/sweeps").status_code == 401  # no token is left, but nothing opens again


def test_a_service_beyond_this_machine_is_closed_before_the_first_token(store: Store, tmp_path) -> None:  # type: ignore[no-untyped-def]
    app = create_app(store, Settings(tmp_path, "", tmp_path), access=Access(open=False))
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/api/v1/sweeps").status_code == 401
    assert client.get("/healthz").status_code == 200


def test_a_cookie_reads_and_writes_only_from_our_own_pages(store: Store, client: TestClient) -> None:
    client.cookies.set(COOKIE, cookie_of(store, make(store, "ada", "submit")))
    assert client.get("/api/v1/sweeps").status_code == 200
    assert client.get("/api/v1/events?follow=false").status_code == 200
    media = {"Content-Type": "application/yaml"}
    answer = client.post("/api/v1/sweeps", content=YAML, headers=media)
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_missing")
    answer = client.post("/api/v1/sweeps", content=YAML, headers=media | {"Origin": "http://evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (403, "origin_not_allowed")
    assert client.post("/api/v1/sweeps", content=YAML, headers=media | ORIGIN).status_code == 201
    with store.write() as session:
        revoke_token(session, "ada", by="tester")
    assert client.get("/api/v1/sweeps").status_code == 401


def test_a_sweep_is_its_senders_and_only_they_or_an_admin_change_it(store: Store, client: TestClient) -> None:
    ada, bob, root = make(store, "ada", "submit"), make(store, "bob", "submit"), make(store, "root", "admin")
    media = {"Content-Type": "application/yaml"}

    def send(text: str, yaml: str = YAML) -> int:
        return client.post("/api/v1/sweeps", content=yaml, headers=media | bearer(text)).status_code

    assert send(ada) == 201
    longer = YAML.replace("[0]", "[0, 1]")
    assert (send(bob, longer), send(root, longer), send(ada, longer + "priority: 1\n")) == (403, 201, 201)
    with store.read() as session:
        assert session.scalars(select(Sweep.owner)).all() == ["ada"]
        details = session.scalars(select(Event.detail).where(Event.kind == "submitted").order_by(Event.id))
        assert [detail["by"] for detail in details] == ["ada", "root", "ada"]


def test_the_last_use_is_kept_to_the_hour(store: Store, client: TestClient) -> None:
    text = make(store, "ada", "read")

    def last_used() -> object:
        with store.read() as session:
            return session.scalar(select(Token.last_used))

    assert last_used() is None
    client.get("/api/v1/sweeps", headers=bearer(text))
    first = last_used()
    assert first is not None
    client.get("/api/v1/sweeps", headers=bearer(text))
    assert last_used() == first
    with store.write() as session:
        session.scalars(select(Token)).one().last_used = now() - timedelta(hours=2)
    client.get("/api/v1/sweeps", headers=bearer(text))
    assert last_used() >= first  # type: ignore[operator]


def test_the_credential_is_not_in_the_etag(store: Store, client: TestClient) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), curves=False)
    etags = {
        client.get("/api/v1/sweeps/head-count/table", headers=bearer(make(store, name, "read"))).headers[
            "etag"
        ]
        for name in ("ada", "bob")
    }
    assert len(etags) == 1


def test_what_an_unknown_caller_sends_is_not_read(store: Store, tmp_path) -> None:  # type: ignore[no-untyped-def]
    reached = []
    router = APIRouter()

    @router.post("/change", openapi_extra=needs("submit"))
    def change() -> None:
        reached.append("change")

    make(store, "ada", "read")
    app = create_app(store, Settings(tmp_path, "", tmp_path), extra_routers=[router])
    assert TestClient(app, base_url="http://127.0.0.1").post("/change").status_code == 401
    assert reached == []


def test_a_live_stream_ends_with_its_token(
    store: Store, app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    text = make(store, "ada", "read")

    def revoke() -> None:
        while not app.state.streams.open:
            time.sleep(0.01)
        with store.write() as session:
            revoke_token(session, "ada", by="tester")

    revoking = threading.Thread(target=revoke)
    revoking.start()
    answer = client.get("/api/v1/events", headers=bearer(text))  # returns only because the stream ends
    revoking.join()
    assert (answer.status_code, answer.text.count("event:")) == (200, 0)


class Watched(Store):
    """A store that counts how often it is looked at."""

    looks = 0

    @contextmanager
    def look(self) -> Iterator[Session]:
        self.looks += 1
        with super().look() as session:
            yield session


def test_who_asks_and_the_state_of_the_sweep_are_one_look_at_the_store(store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1,), kv_heads=(1,), curves=False)
    watched = Watched(store.engine)
    client = TestClient(create_app(watched, Settings(tmp_path, "", tmp_path)), base_url="http://127.0.0.1")
    path = "/api/v1/sweeps/head-count"
    first = client.get(path)
    assert (first.status_code, watched.looks) == (200, 1)
    known = {"If-None-Match": first.headers["etag"]}
    assert (client.get(path, headers=known).status_code, watched.looks) == (304, 2)
    with store.write() as session:
        session.execute(update(Sweep).values(version=Sweep.version + 1))
    assert (client.get(path, headers=known).status_code, watched.looks) == (200, 3)
    token = bearer(make(store, "ada", "read"))
    assert (client.get(path, headers=token).status_code, watched.looks) == (200, 4)
    assert client.get("/api/v1/sweeps/head-count%00", headers=token).status_code == 422


def test_strangers_at_a_closed_service_leave_nothing_behind(store: Store, tmp_path: Path) -> None:
    app = create_app(store, Settings(tmp_path, "", tmp_path), access=Access(open=False))
    client = TestClient(app, base_url="http://127.0.0.1")
    assert client.get("/api/v1/sweeps/head-count").status_code == 401
    assert not app.state.looks._waiting

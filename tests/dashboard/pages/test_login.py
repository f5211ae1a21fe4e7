"""A browser's way in and out."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.api.callers import COOKIE
from headcount.dashboard.pages.login import _local
from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.tokens import create_token, revoke_token

ORIGIN = {"Origin": "http://127.0.0.1:8321"}
SWEEP = "/sweeps/head-count"


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), curves=False)
    yield store
    store.close()


@pytest.fixture
def browser(own_store: Store, tmp_path: Path) -> TestClient:
    service = create_service(own_store, Settings(tmp_path, "", tmp_path))
    return TestClient(service, base_url="http://127.0.0.1:8321", follow_redirects=False)


def make_token(store: Store) -> str:
    with store.write() as session:
        return create_token(session, "ada <b>", "read", expires=None, by="tester")


def test_a_page_leads_to_the_login_and_back(own_store: Store, browser: TestClient) -> None:
    text = make_token(own_store)
    turned_away = browser.get(f"{SWEEP}?line=1")
    assert turned_away.status_code == 303
    assert turned_away.headers["location"] == "/login?next=%2Fsweeps%2Fhead-count%3Fline%3D1"
    page = browser.get(turned_away.headers["location"])
    assert (page.status_code, page.headers["cache-control"]) == (200, "no-store")
    assert 'name="next" value="/sweeps/head-count?line=1"' in page.text
    form = {"token": f" {text}\n", "next": f"{SWEEP}?line=1"}
    let_in = browser.post("/login", data=form, headers=ORIGIN)
    assert (let_in.status_code, let_in.headers["location"]) == (303, f"{SWEEP}?line=1")
    cookie = let_in.headers["set-cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert text not in cookie
    assert browser.get(SWEEP, follow_redirects=True).status_code == 200
    assert browser.get("/api/v1/events?follow=false").status_code == 200
    assert "ada &lt;b&gt;" in browser.get("/login").text
    kept = browser.cookies[COOKIE]
    assert browser.post("/logout", headers=ORIGIN).headers["location"] == "/login"
    assert COOKIE not in browser.cookies
    browser.cookies.set(COOKIE, kept)  # the login has ended, not only its cookie
    assert browser.get("/").status_code == 303


def test_a_wrong_token_is_told_so_and_gets_no_cookie(own_store: Store, browser: TestClient) -> None:
    text = make_token(own_store)
    for wrong in ("", "hc_no", text[:-1]):
        answer = browser.post("/login", data={"token": wrong}, headers=ORIGIN)
        assert answer.status_code == 401
        assert "mistyped, unknown, expired or revoked" in answer.text
        assert "set-cookie" not in answer.headers
    with own_store.write() as session:
        revoke_token(session, "ada <b>", by="tester")
    assert browser.post("/login", data={"token": text}, headers=ORIGIN).status_code == 401


def test_data_is_refused_with_a_problem_not_with_a_page(own_store: Store, browser: TestClient) -> None:
    make_token(own_store)
    answer = browser.get("/api/v1/sweeps", headers={"Accept": "text/html"})
    assert (answer.status_code, answer.json()["code"]) == (401, "token_needed")


def test_before_the_first_token_no_login_is_needed(browser: TestClient) -> None:
    assert browser.get("/", follow_redirects=True).status_code == 200
    assert "No login is needed" in browser.get("/login").text


def test_a_login_from_another_site_is_refused(own_store: Store, browser: TestClient) -> None:
    form = {"token": make_token(own_store)}
    assert browser.post("/login", data=form, headers={"Origin": "http://evil.example"}).status_code == 403


def test_a_cookie_over_tls_stays_there(own_store: Store, browser: TestClient) -> None:
    browser.base_url = "https://127.0.0.1:8321"  # type: ignore[assignment]
    answer = browser.post("/login", data={"token": make_token(own_store)})
    assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    "goal",
    [
        "//evil.example",
        "//[",
        "https://evil.example",
        "/\\evil.example",
        "evil",
        "/a\r\nX: y",
        "",
        "javascript:x",
    ],
)
def test_a_link_to_the_login_leads_nowhere_else(goal: str) -> None:
    assert _local(goal) == "/"


@settings(deadline=None)
@given(st.text(max_size=50))
def test_the_goal_is_always_a_path_of_ours(text: str) -> None:
    for goal in (text, f"/{text}"):
        found = _local(goal)
        assert found.startswith("/")
        assert not found.startswith(("//", "/\\"))


def test_behind_a_proxy_every_link_is_under_its_path(own_store: Store, tmp_path: Path) -> None:
    service = create_service(own_store, Settings(tmp_path, "", tmp_path))
    # as uvicorn does with --root-path: the path that the proxy took off is put before the rest
    client = TestClient(service, base_url="http://127.0.0.1:8321", root_path="/lab", follow_redirects=False)
    page = client.get("/lab/sweeps/head-count", follow_redirects=True)
    assert page.status_code == 200
    links = re.findall(
        r'(?:href|src|action|data-events)="(/[^"]*)"',
        client.get("/lab/", follow_redirects=True).text + page.text,
    )
    assert len(links) > 10
    assert [link for link in links if not link.startswith("/lab/")] == []
    for link in {unescape(link) for link in links if "events" not in link}:
        assert client.get(link, follow_redirects=True).status_code == 200, link
    problem = client.get("/lab/api/v1/sweeps/no").json()
    assert client.get(problem["type"]).json()["code"] == "not_found"
    make_token(own_store)
    assert client.get("/lab/").headers["location"] == "/lab/login?next=%2Flab%2F"
    assert client.get("/lab/api/v1/sweeps").status_code == 401

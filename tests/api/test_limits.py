"""One client cannot ask without end, nor all of them at once; and HEAD asks like GET."""

from pathlib import Path

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from headcount.api import limits, security
from headcount.api.app import create_app
from headcount.api.limits import BURST_SECONDS, Rate
from headcount.api.security import Access
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_then_the_rate() -> None:
    clock = Clock()
    rate = Rate(2.0, clock)
    assert [rate.wait("ada") for _ in range(20)] == [0.0] * 20
    assert rate.wait("ada") == pytest.approx(0.5)
    assert rate.wait("bob") == 0.0
    clock.now += 0.5
    assert (rate.wait("ada"), rate.wait("ada") > 0) == (0.0, True)


@settings(deadline=None)
@given(st.floats(0.1, 50), st.lists(st.floats(0, 5), max_size=200))
def test_no_client_gets_more_than_its_rate_and_one_burst(per_second: float, gaps: list[float]) -> None:
    clock = Clock()
    rate = Rate(per_second, clock)
    answered = 0
    for gap in gaps:
        clock.now += gap
        answered += rate.wait("ada") == 0
    assert answered <= per_second * (clock.now - 1000 + BURST_SECONDS) + 1e-6


def test_clients_that_are_quiet_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_MANY_CLIENTS", 3)
    clock = Clock()
    rate = Rate(1.0, clock)
    for name in ("ada", "bob", "eve"):
        rate.wait(name)
    clock.now += 2
    rate.wait("zoe")
    assert set(rate._due) == {"zoe"}


def test_too_many_requests_are_told_when_to_come_back(store: Store, tmp_path: Path) -> None:
    app = create_app(store, Settings(tmp_path, "", tmp_path), access=Access(rate=0.5))
    client = TestClient(app, base_url="http://127.0.0.1")
    assert [client.get("/healthz").status_code for _ in range(5)] == [200] * 5
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["code"]) == (429, "too_many_requests")
    assert 1 <= int(answer.headers["retry-after"]) <= 2


def test_too_many_at_once_are_turned_away(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "MAX_AT_ONCE", 0)
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (
        503,
        "too_busy",
        "1",
    )


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/sweeps",
        "/api/v1/sweeps/head-count/table.csv",
        "/api/v1/sweeps/head-count/evaluations.csv",
        "/api/v1/events",
        "/api/v1/sweeps/nothing",
        "/healthz",
    ],
)
def test_head_is_get_without_its_body(store: Store, client: TestClient, path: str) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 4), kv_heads=(1, 2), seeds=(0,))
    head = client.head(path)
    asked = client.get(f"{path}?follow=false" if path.endswith("events") else path)
    assert head.content == b""
    assert asked.content
    named = ("content-type", "etag", "cache-control", "vary", "link", "content-disposition")
    assert head.status_code == asked.status_code
    assert [head.headers.get(n) for n in named] == [asked.headers.get(n) for n in named]

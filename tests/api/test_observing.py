"""What Prometheus is told of a service, and what its log holds of each request."""

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import httpx2
import pytest
from builders import build_sweep
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from served import serve
from sqlalchemy.exc import OperationalError

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.tokens import create_token

SWEEP = "/api/v1/sweeps/head-count"


def told(text: str) -> dict[str, float]:
    """Every sample under its name and the values of its labels."""
    return {
        " ".join((sample.name, *sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_requests_and_the_store_are_told(store: Store, client: TestClient) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 4), kv_heads=(1,), seeds=(0,))
    for path in (SWEEP, SWEEP, "/api/v1/sweeps/nothing", "/nowhere", "/api/v1/events?follow=false"):
        client.get(path)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    figures = told(answer.text)
    assert figures["headcount_requests_total GET /api/v1/sweeps/{sweep} 200"] == 2
    assert figures["headcount_requests_total GET /api/v1/sweeps/{sweep} 404"] == 1
    assert figures["headcount_requests_total GET none 404"] == 1
    assert figures["headcount_request_seconds_count /api/v1/sweeps/{sweep}"] == 3
    assert figures["headcount_requests_total GET /api/v1/events 200"] == 1
    assert "headcount_request_seconds_count /api/v1/events" not in figures
    assert figures["headcount_requests_under_way"] == 1  # this one
    assert figures["headcount_jobs finished"] == 3


def test_figures_are_for_those_with_a_token(store: Store, client: TestClient) -> None:
    with store.write() as session:
        token = create_token(session, "prometheus", "read", expires=None, by="tests")
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_ready_is_who_reaches_the_store_and_stays(
    store: Store, app: FastAPI, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/readyz").json() == {"status": "ok", "version": app.version}
    app.state.streams.stopping = True
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    app.state.streams.stopping = False

    def refuse(*words: Any, **more: Any) -> None:
        raise OperationalError("SELECT 1", None, Exception("connection to server failed"))

    monkeypatch.setattr("sqlalchemy.orm.Session.execute", refuse)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert client.get("/healthz").status_code == 200


def test_each_request_is_a_line_of_json_without_secrets(tmp_path: Path) -> None:
    process, url = serve(tmp_path, "--log-format", "json")
    secret = "hc_" + "s" * 40
    job = "ab" * 32
    answers = [
        httpx2.get(f"{url}api/v1/jobs/{job}"),
        httpx2.get(f"{url}api/v1/sweeps?token={secret}"),
        httpx2.get(f"{url}api/v1/sweeps", headers={"Authorization": f"Bearer {secret}"}),
    ]
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    assert secret not in log
    lines = [json.loads(line) for line in log.splitlines()]
    requests = [line for line in lines if line["logger"] == "headcount.requests"]
    assert [line["request"] for line in requests] == [answer.headers["x-request-id"] for answer in answers]
    first = requests[0]
    assert 0 < first.pop("seconds") < 5
    assert {name: first[name] for name in ("method", "route", "status", "job", "client", "level")} == {
        "method": "GET",
        "route": "/api/v1/jobs/{job}",
        "status": 404,
        "job": job,
        "client": "127.0.0.1",
        "level": "info",
    }
    assert [line["status"] for line in requests] == [404, 422, 401]


def test_several_processes_tell_their_figures_together(tmp_path: Path) -> None:
    process, url = serve(tmp_path, "--workers", "2")
    try:
        for _ in range(20):
            with urllib.request.urlopen(f"{url}healthz", timeout=10) as answer:  # a connection each
                assert answer.status == 200
        figures = told(httpx2.get(f"{url}metrics").text)
        assert figures["headcount_requests_total GET /healthz 200"] == 20
        assert figures["headcount_requests_under_way"] == 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)

"""ETags change with the data, the question and the form, and spare the work when nothing changed."""

from typing import Any

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import text

from headcount.api import results
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import announce_job

SWEEP = "/api/v1/sweeps/head-count"
PATHS = ("table.json", "table.csv", "table", "head-curve", "grid", "statistics", "cells")


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), curves=False)
    return store


@pytest.mark.parametrize("path", PATHS)
def test_nothing_is_computed_for_a_client_that_has_it(
    filled: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    first = client.get(f"{SWEEP}/{path}")
    etag = first.headers["etag"]
    assert first.headers["cache-control"] == "private, no-cache"

    def computed(*_: Any) -> None:
        raise AssertionError("the table was computed")

    monkeypatch.setattr(results, "ablation_table", computed)
    monkeypatch.setattr(results, "cells", computed)
    for header in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        again = client.get(f"{SWEEP}/{path}", headers={"If-None-Match": header})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)


def test_another_question_has_another_etag(filled: Store, client: TestClient) -> None:
    questions = [*PATHS, "table.md", "table.md?digits=2", "head-curve?axis=model.kv_heads"]
    etags = {client.get(f"{SWEEP}/{q}").headers["etag"] for q in questions}
    etags.add(client.get(f"{SWEEP}/table", headers={"Accept": "text/csv"}).headers["etag"])
    assert len(etags) == len(questions) + 1


def test_sweeps_and_jobs_are_cached_until_they_change(filled: Store, client: TestClient) -> None:
    job = client.get(f"{SWEEP}/jobs").json()["items"][0]["id"]
    job_paths = [
        f"/api/v1/jobs/{job}{rest}" for rest in ("", "/evaluations", "/evaluations.csv", "/progress")
    ]
    paths = ["/api/v1/sweeps", SWEEP, f"{SWEEP}/jobs?limit=5", f"{SWEEP}/jobs?limit=6", *job_paths]
    etags = {path: client.get(path).headers["etag"] for path in paths}
    assert len(set(etags.values())) == len(paths)
    for path, etag in etags.items():
        again = client.get(path, headers={"If-None-Match": etag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)
    with filled.write() as session:
        announce_job(session, job, "evaluated", step=10, loss=1.0)
    for path, etag in etags.items():
        assert client.get(path, headers={"If-None-Match": etag}).status_code == 200


def test_a_change_of_the_sweep_is_seen(filled: Store, client: TestClient) -> None:
    before = client.get(f"{SWEEP}/table.csv")
    with filled.write() as session:
        session.execute(text("UPDATE job SET tail_mean = tail_mean + 1"))
        session.execute(text("UPDATE sweep SET results_version = results_version + 1"))
    after = client.get(f"{SWEEP}/table.csv", headers={"If-None-Match": before.headers["etag"]})
    assert (after.status_code, after.text == before.text) == (200, False)

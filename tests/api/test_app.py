"""The REST resources over a store with every kind of job, and every kind of error."""

import csv
import io
import json
from typing import Any
from urllib.parse import urlencode

import pytest
from builders import build_sweep
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headcount.api.app import create_app
from headcount.api.formats import plain, render
from headcount.api.results import ablation_table, grid, head_curve, paired_statistics
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store

bounded = settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

STATES = {(2, 1, 1e-3, 0): "diverged", (4, 1, 1e-3, 1): "failed", (8, 2, 1e-3, 2): "running"}
SWEEP = "/api/v1/sweeps/head-count"


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        build_sweep(session, states=STATES)
    return store


def test_the_table_is_the_same_in_every_form(filled: Store, client: TestClient) -> None:
    with filled.read() as session:
        table = ablation_table(session, "head-count")
    for form, media in (
        ("json", "application/json"),
        ("csv", "text/csv; charset=utf-8"),
        ("md", "text/markdown; charset=utf-8"),
        ("tex", "application/x-tex; charset=utf-8"),
    ):
        by_suffix = client.get(f"{SWEEP}/table.{form}", headers={"Accept": "text/html"})
        by_accept = client.get(f"{SWEEP}/table", headers={"Accept": media.partition(";")[0]})
        assert by_suffix.text == by_accept.text
        if form == "json":
            assert by_suffix.json() == json.loads(render(table, form))
        else:
            assert by_suffix.text == render(table, form)
        assert by_suffix.headers["content-type"] == by_accept.headers["content-type"] == media
        assert by_accept.headers["vary"] == "Accept"
    rows = list(csv.DictReader(io.StringIO(client.get(f"{SWEEP}/table.csv").text)))
    assert [float(r["mean"]) if r["mean"] else None for r in rows] == [r.mean for r in table.rows]
    assert client.get(f"{SWEEP}/table.md?digits=2").text == render(table, "md", 2)
    links = client.get(f"{SWEEP}/table.csv").headers["link"]
    assert f'<{SWEEP}/table.tex>; rel="alternate"; type="application/x-tex"' in links
    assert "table.csv" not in links


@pytest.mark.parametrize(
    ("accept", "media"),
    [
        ("text/html, */*;q=0.8", "application/json"),
        ("text/csv;q=0.9, application/json;q=0.5", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json;q=0, text/markdown;q=0.1", "text/markdown"),
        ("TEXT/CSV;q=nan, application/x-tex", "application/x-tex"),
    ],
)
def test_accept_is_weighed(filled: Store, client: TestClient, accept: str, media: str) -> None:
    answer = client.get(f"{SWEEP}/table", headers={"Accept": accept})
    assert answer.headers["content-type"].partition(";")[0] == media


def test_results_are_those_of_the_store(filled: Store, client: TestClient) -> None:
    with filled.read() as session:
        table = ablation_table(session, "head-count")
    for path, expected in (
        ("head-curve", head_curve(table)),
        ("head-curve?axis=model.kv_heads", head_curve(table, "model.kv_heads")),
        ("grid", grid(table)),
        ("grid?rows=model.routing_heads", grid(table, "model.routing_heads")),
        ("statistics", paired_statistics(table)),
    ):
        answer = client.get(f"{SWEEP}/{path}")
        assert (answer.status_code, answer.json()) == (200, json.loads(json.dumps(plain(expected))))


def test_sweeps_cells_and_jobs_lead_to_each_other(filled: Store, client: TestClient) -> None:
    (listed,) = client.get("/api/v1/sweeps").json()["items"]
    sweep = client.get(f"/api/v1/sweeps/{listed['name']}").json()
    assert listed.items() <= sweep.items()
    assert (sweep["state"], sweep["states"]["diverged"]) == ("running", 1)
    cells = client.get(f"{SWEEP}/cells").json()["items"]
    assert len(cells) == sweep["cells"] == 18
    assert client.get(f"{SWEEP}/cells/{cells[4]['id']}").json() == cells[4]
    result = cells[4]["results"][1]
    job = client.get(f"/api/v1/jobs/{result['job_id']}").json()
    assert (job["seed"], job["tail_mean"]) == (result["seed"], result["tail_mean"])
    assert job["attempts"][0]["cause"] == "finished"
    evaluations = client.get(f"/api/v1/jobs/{job['id']}/evaluations").json()["items"]
    assert [e["step"] for e in evaluations] == list(range(0, 401, 10))
    rows = "".join(f"{e['step']},{e['loss']!r}\n" for e in evaluations)
    assert client.get(f"/api/v1/jobs/{job['id']}/evaluations.csv").text == f"step,loss\n{rows}"
    assert job["tail_mean"] == pytest.approx(sum(e["loss"] for e in evaluations[-11:]) / 11)
    first = client.get(f"/api/v1/jobs/{job['id']}/progress?limit=30").json()
    rest = client.get(f"/api/v1/jobs/{job['id']}/progress?after_step={first['next_step']}").json()
    assert [p["step"] for p in first["items"] + rest["items"]] == list(range(10, 401, 10))
    assert rest["next_step"] is None


def test_pages_of_jobs_are_linked(filled: Store, client: TestClient) -> None:
    url, seen = f"{SWEEP}/jobs?limit=20&seed=1", []
    while url:
        answer = client.get(url)
        seen += answer.json()["items"]
        link = answer.headers.get("link", "")
        assert bool(link) == bool(answer.json()["next_cursor"])
        url = link.partition(">")[0].removeprefix("<")
    assert len({j["id"] for j in seen}) == len(seen) == 18
    assert [j["position"] for j in seen] == sorted(j["position"] for j in seen)


@bounded
@given(
    state=st.sampled_from([None, "finished", "diverged", "failed", "running", "queued"]),
    seed=st.sampled_from([None, 0, 1, 2, 9]),
    cell=st.sampled_from([None, 0, 7, 40]),
    limit=st.integers(1, 60),
)
def test_pages_of_any_filters_are_the_filtered_list(
    filled: Store, client: TestClient, state: str | None, seed: int | None, cell: int | None, limit: int
) -> None:
    everything = client.get(f"{SWEEP}/jobs?limit=1000").json()["items"]
    cell_id = None if cell is None else sorted({j["cell"] for j in everything})[cell % 18]
    wanted = {"state": state, "seed": seed, "cell": cell_id}
    filters = {name: value for name, value in wanted.items() if value is not None}
    url, pages = f"{SWEEP}/jobs?{urlencode({**filters, 'limit': limit})}", []
    while url:
        answer = client.get(url)
        pages.append(answer.json()["items"])
        url = answer.headers.get("link", "").partition(">")[0].removeprefix("<")
    assert [len(page) == limit for page in pages[:-1]] == [True] * (len(pages) - 1)
    expected = [j for j in everything if all(j[n] == v for n, v in filters.items())]
    assert [j for page in pages for j in page] == expected


def test_a_cursor_is_of_its_sweep_and_filters(filled: Store, client: TestClient) -> None:
    cursor = client.get(f"{SWEEP}/jobs?limit=5").json()["next_cursor"]
    for bad in (f"seed=1&cursor={cursor}", "cursor=abc", "cursor=MS4yLjM", "cursor=%C3%A9", "cursor="):
        answer = client.get(f"{SWEEP}/jobs?{bad}")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_cursor")


def problem(answer: Any) -> tuple[int, str, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body.keys() == {
        "type",
        "title",
        "status",
        "detail",
        "instance",
        "code",
        "errors",
        "request_id",
    }
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["instance"] == answer.request.url.path
    return body["status"], body["code"], body["detail"]


def test_every_error_is_a_problem(filled: Store, client: TestClient) -> None:
    assert problem(client.get("/nowhere")) == (404, "not_found", "there is nothing at this path")
    status, code, detail = problem(client.get("/api/v1/sweeps/head-cuont/table.csv"))
    assert (status, code) == (404, "not_found")
    assert detail == "no sweep is called 'head-cuont'; did you mean 'head-count'?"
    assert problem(client.get(f"/api/v1/jobs/{'0' * 64}"))[0] == 404
    assert problem(client.get(f"{SWEEP}/cells/99999"))[0] == 404
    answer = client.put(SWEEP)
    assert problem(answer)[:2] == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, HEAD"
    status, code, detail = problem(client.get(f"{SWEEP}/table.xlsx"))
    assert (status, code) == (406, "not_acceptable")
    assert detail.endswith(
        "there are .json (application/json), .csv (text/csv), .md (text/markdown), .tex (application/x-tex), "
        ".parquet (application/vnd.apache.parquet)"
    )
    assert problem(client.get(f"{SWEEP}/table", headers={"Accept": "image/png"}))[0] == 406
    assert problem(client.get(f"{SWEEP}/grid?rows=seed"))[:2] == (422, "not_possible")


def test_an_unknown_parameter_is_never_ignored(filled: Store, client: TestClient) -> None:
    answer = client.get(f"{SWEEP}/jobs?limt=3&limit=0")
    assert problem(answer)[:2] == (422, "invalid_request")
    assert answer.json()["errors"] == [
        {"where": "query.limit", "problem": "Input should be greater than or equal to 1"},
        {"where": "query.limt", "problem": "unknown parameter"},
    ]
    for path in ("/healthz", "/api/v1/sweeps", SWEEP, f"{SWEEP}/cells", f"{SWEEP}/statistics"):
        assert client.get(path).status_code == 200
        assert problem(client.get(f"{path}?sort=x"))[2] == "query.sort: unknown parameter"


def test_our_own_fault_is_a_problem_without_its_cause(
    filled: Store, app: FastAPI, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    app.state.store = None
    answer = client.get("/api/v1/sweeps")
    status, code, detail = problem(answer)
    assert (status, code) == (500, "internal")
    assert "NoneType" not in answer.text
    assert answer.headers["x-request-id"] in detail
    (record,) = caplog.records
    assert answer.headers["x-request-id"] in record.getMessage()
    assert record.exc_text is not None
    assert "NoneType" in record.exc_text


def test_the_service_closes_its_store(tmp_path: Any) -> None:
    from headcount.orchestrator.store import open_store

    store = open_store(f"sqlite:///{tmp_path / 'own.db'}")
    app = create_app(store, Settings(tmp_path, "", tmp_path))
    with TestClient(app, base_url="http://localhost") as client:
        assert client.get("/healthz").json() == {"status": "ok", "version": app.version}
    assert store.engine.pool.checkedin() == 0  # type: ignore[attr-defined]

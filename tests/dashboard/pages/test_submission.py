"""A sweep written in the browser: checked, planned and stored as one that is sent over REST."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from headcount.api.callers import COOKIE
from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Job, Sweep
from headcount.orchestrator.store.tokens import TokenScope, create_token
from headcount.sweeps.studies import studies

ORIGIN = {"Origin": "http://127.0.0.1:8321"}
YAML = """\
name: written
job:
  model: {residual: mhar}
  train: {steps: 40}
axes:
  model.routing_heads: [1, 4]
seeds: [0, 1]
"""
HOSTILE = "name: <script>alert(1)</script>\n"


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    yield store
    store.close()


@pytest.fixture
def browser(own_store: Store, tmp_path: Path) -> TestClient:
    service = create_service(own_store, Settings(tmp_path, "", tmp_path))
    return TestClient(
        service, base_url="http://127.0.0.1:8321", follow_redirects=False, headers={"Accept": "text/html"}
    )


def log_in(store: Store, browser: TestClient, scope: TokenScope) -> None:
    with store.write() as session:
        token = create_token(session, f"ada-{scope}", scope, expires=None, by="tester")
    assert browser.post("/login", data={"token": token}, headers=ORIGIN).status_code == 303


def jobs_of(store: Store) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).select_from(Job)) or 0


def test_the_plan_is_that_of_a_dry_run_over_rest(own_store: Store, browser: TestClient) -> None:
    asked = {"content": YAML, "headers": {"Content-Type": "application/yaml"}}
    plan = browser.post("/api/v1/sweeps?dry_run=true", **asked).json()  # type: ignore[arg-type]
    html = browser.post("/submit", data={"text": YAML, "do": "check"}).text
    assert f'<strong class="usertext">written</strong>: {plan["jobs"]} jobs, all of them new.' in html
    assert html.count('<th scope="row" class="usertext">') == len(plan["cells"]) == 3
    assert '<dt>Seeds</dt><dd class="usertext">0, 1</dd>' in html
    for warning in plan["warnings"]:
        assert warning in html
    assert "<html" not in html
    assert jobs_of(own_store) == 0
    whole = browser.post("/submit", data={"text": YAML, "do": "plan"})
    assert (whole.status_code, html.strip() in whole.text) == (200, True)


def test_a_submitted_file_leads_to_its_sweep_once(own_store: Store, browser: TestClient) -> None:
    text = YAML.replace("\n", "\r\n")  # as browsers send it
    for _ in range(2):
        answer = browser.post("/submit", data={"text": text})
        assert (answer.status_code, answer.headers["location"]) == (303, "/sweeps/written")
    assert jobs_of(own_store) == 6
    with own_store.read() as session:
        assert session.scalars(select(Sweep.yaml)).one() == YAML
    again = browser.post("/submit", data={"text": YAML, "do": "check"}).text
    assert "none of them new" in again
    assert "this is its file" in again
    edited = browser.post("/submit", data={"text": YAML.replace("[0, 1]", "[0, 1, 2]"), "do": "check"}).text
    assert "+ seeds 2" in edited
    assert YAML in browser.get("/submit?from=written").text


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (YAML.replace("mhar}", "mhra}"), 3, "did you mean &#39;mhar&#39;?"),
        (YAML.replace("[1, 4]", "[1, 3]"), 6, "3"),
        ("name: [", 1, "malformed YAML"),
        (HOSTILE, None, "&lt;script&gt;"),
        ("name: x\njob: {data: {text: [/etc/passwd]}}\n", None, "never a path"),
        ("", None, "empty"),
    ],
)
def test_a_problem_stands_at_its_line(
    own_store: Store, browser: TestClient, text: str, line: int | None, words: str
) -> None:
    answer = browser.post("/submit", data={"text": text, "do": "check"})
    assert answer.status_code == 200
    assert words in answer.text or line is None
    if line is not None:
        assert f'data-line="{line}"' in answer.text
        assert f"<strong>Line {line}</strong>" in answer.text
    assert "data-planned" not in answer.text
    assert "<script>" not in answer.text
    page = browser.post("/submit", data={"text": text})
    assert page.status_code == 422
    assert 'aria-invalid="true"' in page.text
    assert jobs_of(own_store) == 0


def test_every_study_is_offered(browser: TestClient) -> None:
    page = browser.get("/submit").text
    offered = re.findall(r'href="/submit\?example=([^"]+)"', page)
    assert offered == [study.name for study in studies()]
    for name in offered:
        page = browser.get(f"/submit?example={name}")
        text = re.search(r"<textarea[^>]*>\n(.*?)</textarea>", page.text, re.S)
        assert text
        assert f"example={name}" in page.text
    assert "did you mean &#39;quickstart&#39;" in browser.get("/submit?example=quickstar").text
    assert browser.get("/submit?from=no").status_code == 404


def test_a_change_needs_its_scope_and_its_origin(own_store: Store, browser: TestClient) -> None:
    log_in(own_store, browser, "read")
    page = browser.get("/submit").text
    assert "Your token may read, but not submit" in page
    assert re.search(r'<button class="primary" type="submit" disabled>', page)
    for what in ("submit", "check", "plan"):
        refused = browser.post("/submit", data={"text": YAML, "do": what}, headers=ORIGIN)
        assert refused.status_code == 403
        assert "Log in with another token" in refused.text
    browser.cookies.delete(COOKIE)
    log_in(own_store, browser, "submit")
    without = browser.post("/submit", data={"text": YAML})
    assert (without.status_code, "must name its Origin" in without.text) == (403, True)
    foreign = browser.post("/submit", data={"text": YAML}, headers={"Origin": "https://evil.example"})
    assert (foreign.status_code, foreign.json()["code"]) == (403, "origin_not_allowed")
    assert jobs_of(own_store) == 0
    assert browser.post("/submit", data={"text": YAML}, headers=ORIGIN).status_code == 303
    with own_store.read() as session:
        assert session.scalars(select(Sweep.owner)).one() == "ada-submit"


def test_without_a_login_it_leads_there(own_store: Store, browser: TestClient) -> None:
    log_in(own_store, browser, "submit")
    browser.cookies.delete(COOKIE)
    answer = browser.post("/submit", data={"text": YAML, "do": "check"}, headers=ORIGIN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fsubmit")


def test_the_sweep_of_another_is_not_changed(own_store: Store, browser: TestClient) -> None:
    assert browser.post("/submit", data={"text": YAML}).status_code == 303  # as the service's own user
    log_in(own_store, browser, "submit")
    answer = browser.post("/submit", data={"text": YAML.replace("[1, 4]", "[1, 2]")}, headers=ORIGIN)
    assert (answer.status_code, "needs the scope admin" in answer.text) == (403, True)
    assert jobs_of(own_store) == 6

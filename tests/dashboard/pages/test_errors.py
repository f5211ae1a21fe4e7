"""Who asks for a page gets its errors as pages; who asks for data gets problems."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.exc import OperationalError

PAGE = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}


def test_an_address_that_is_not_there_is_a_page(client: TestClient) -> None:
    answer = client.get("/nowhere<b>", headers=PAGE)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing at this address." in answer.text
    assert '<a href="/">All sweeps</a>' in answer.text


def test_what_is_not_possible_is_a_page(client: TestClient) -> None:
    answer = client.post("/jobs/1", headers=PAGE)
    assert (answer.status_code, "<h1>Not possible here</h1>" in answer.text) == (405, True)


@pytest.mark.parametrize(("path", "accept"), [("/nowhere", "*/*"), ("/api/v1/nowhere", PAGE["Accept"])])
def test_for_programs_it_is_a_problem(client: TestClient, path: str, accept: str) -> None:
    answer = client.get(path, headers={"Accept": accept})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"] == "there is nothing at this path"


@pytest.mark.parametrize(
    "path", ["/", "/sweeps/head-count", "/compare", "/reference", "/submit?from=head-count"]
)
def test_a_store_that_does_not_answer_is_a_page_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    def refuse(*words: Any, **more: Any) -> None:
        raise OperationalError("SELECT 1", None, Exception("connection to server failed"))

    monkeypatch.setattr("sqlalchemy.pool.Pool.connect", refuse)
    answer = client.get(path, headers=PAGE)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "<h1>The store does not answer</h1>" in answer.text
    assert "connection to server failed" in answer.text

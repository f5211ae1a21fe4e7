"""A submission that is sent again with its key gets the same answer, and nothing happens twice."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from headcount.api.idempotency import claimed
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.answers import ABANDONED, KEPT
from headcount.orchestrator.store.journal import now
from headcount.orchestrator.store.models import Answer, Event
from headcount.orchestrator.store.tokens import create_token

YAML = "name: sent\njob: {train: {steps: 40}}\naxes: {train.peak_lr: [1e-3, 1e-4]}\nseeds: [0]\n"


def send(client: TestClient, key: str, body: str = YAML, **headers: str) -> Any:
    sent = {"Content-Type": "application/yaml", "Idempotency-Key": key, **headers}
    return client.post("/api/v1/sweeps", content=body, headers=sent)


def submissions(store: Store) -> int:
    with store.read() as session:
        return session.scalar(select(func.count()).where(Event.kind == "submitted")) or 0


def age(store: Store, by: timedelta) -> None:
    with store.write() as session:
        session.execute(update(Answer).values(created=now() - by))


def test_the_same_request_gets_the_same_answer(store: Store, client: TestClient) -> None:
    first, again = send(client, "k1"), send(client, "k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert first.json()["new"] > 0
    assert first.headers["location"] == again.headers["location"]
    assert submissions(store) == 1
    other = send(client, "k2")
    assert (other.json()["new"], other.json()["known"]) == (0, first.json()["new"])


def test_another_request_with_the_key_is_refused(store: Store, client: TestClient) -> None:
    send(client, "k")
    answer = send(client, "k", YAML.replace("1e-4", "2e-4"))
    assert (answer.status_code, answer.json()["code"]) == (422, "key_reused")
    assert submissions(store) == 1


def test_nothing_is_kept_of_what_failed(store: Store, client: TestClient) -> None:
    assert send(client, "k", "name: sent\ncolour: red\n").status_code == 422
    assert send(client, "k").status_code == 201


def test_a_request_in_work_is_not_begun_twice(store: Store, client: TestClient) -> None:
    with claimed(store, "ada", "k", "question"):
        with pytest.raises(Exception, match="not answered yet"), claimed(store, "ada", "k", "question"):
            raise AssertionError("begun twice")
        with claimed(store, "bob", "k", "question") as his_own:
            assert his_own.answer is None
        age(store, ABANDONED + timedelta(seconds=1))
        with claimed(store, "ada", "k", "question") as inherited:  # its service died over it
            assert inherited.answer is None


def test_keys_are_kept_for_a_day(store: Store, client: TestClient) -> None:
    send(client, "k")
    age(store, KEPT - timedelta(minutes=1))
    assert send(client, "k", YAML + "priority: 1\n").status_code == 422
    age(store, KEPT + timedelta(minutes=1))
    assert send(client, "k", YAML + "priority: 1\n").status_code == 201


def test_a_key_is_of_its_caller(store: Store, client: TestClient) -> None:
    with store.write() as session:
        ada, bob = (create_token(session, n, "admin", expires=None, by="root") for n in ("ada", "bob"))
    assert send(client, "k", Authorization=f"Bearer {ada}").json()["new"] == 2
    other = send(client, "k", YAML + "priority: 1\n", Authorization=f"Bearer {bob}")
    assert (other.status_code, other.json()["known"]) == (201, 2)


@pytest.mark.parametrize("key", ["", "x" * 256, "a b"])
def test_a_key_that_is_none_is_refused(store: Store, client: TestClient, key: str) -> None:
    assert send(client, key).status_code == 422
    assert submissions(store) == 0


def test_a_dry_run_takes_no_key(store: Store, client: TestClient) -> None:
    headers = {"Content-Type": "application/yaml", "Idempotency-Key": "k"}
    assert client.post("/api/v1/sweeps?dry_run=true", content=YAML, headers=headers).status_code == 200
    assert send(client, "k", YAML + "priority: 1\n").status_code == 201

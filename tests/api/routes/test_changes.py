"""Changes of a sweep over REST: made on the state that the client saw, written down with who asked."""

from typing import Any

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import select

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Event, Job, SweepJob
from headcount.orchestrator.store.tokens import create_token

SWEEP = "/api/v1/sweeps/head-count"
STATES = {(1, 1, 1e-3, 0): "queued", (4, 1, 1e-3, 0): "running", (8, 1, 1e-3, 0): "failed"}
ANY = {"If-Match": "*"}


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        build_sweep(session, heads=(1, 4, 8), kv_heads=(1,), seeds=(0,), states=STATES, curves=False)
    return store


def states(store: Store) -> dict[str, int]:
    with store.read() as session:
        found = list(session.scalars(select(Job.state)))
    return {state: found.count(state) for state in found}


def wishes(store: Store, name: str) -> set[Any]:
    with store.read() as session:
        return set(session.scalars(select(getattr(SweepJob, name))))


def test_every_change_is_made_and_told(filled: Store, client: TestClient) -> None:
    def change(name: str, **more: Any) -> int:
        answer = client.post(f"{SWEEP}/{name}", headers=ANY, **more)
        assert answer.status_code == 200, answer.text
        assert answer.json()["sweep"] == "head-count"
        assert answer.headers["etag"] == client.get(SWEEP).headers["etag"]
        return int(answer.json()["jobs"])

    assert (change("pause"), wishes(filled, "paused")) == (4, {True})
    assert (change("resume"), wishes(filled, "paused")) == (4, {False})
    assert (change("priority", json={"priority": 3}), wishes(filled, "priority")) == (4, {3})
    assert change("retry") == 1
    assert states(filled) == {"queued": 2, "running": 1, "finished": 1}
    assert change("cancel") == 3
    assert states(filled) == {"cancelled": 2, "cancelling": 1, "finished": 1}
    assert change("cancel") == 0
    with filled.read() as session:
        events = session.execute(select(Event.kind, Event.detail).order_by(Event.id)).all()[-5:]
    assert [kind for kind, _ in events] == ["paused", "resumed", "prioritised", "requeued", "cancelled"]
    assert all(detail["by"] for _, detail in events)


def test_a_sweep_is_deleted_as_it_was_seen_and_its_jobs_stay(filled: Store, client: TestClient) -> None:
    seen = client.get(SWEEP).headers["etag"]
    assert client.delete(SWEEP).json()["code"] == "if_match_needed"
    client.post(f"{SWEEP}/pause", headers=ANY)
    assert client.delete(SWEEP, headers={"If-Match": seen}).json()["code"] == "changed_meanwhile"
    answer = client.delete(SWEEP, headers={"If-Match": client.get(SWEEP).headers["etag"]})
    assert (answer.status_code, answer.content) == (204, b"")
    assert client.get(SWEEP).status_code == 404
    assert client.delete(SWEEP, headers=ANY).status_code == 404
    assert states(filled) == {"cancelled": 1, "cancelling": 1, "failed": 1, "finished": 1}


def test_a_change_names_the_state_that_it_changes(filled: Store, client: TestClient) -> None:
    seen = client.get(SWEEP).headers["etag"]
    answer = client.post(f"{SWEEP}/pause")
    assert (answer.status_code, answer.json()["code"]) == (428, "if_match_needed")
    first = client.post(f"{SWEEP}/pause", headers={"If-Match": f'"other", {seen}'})
    assert first.status_code == 200
    for stale in (seen, f"W/{first.headers['etag']}", "", '"other"'):
        answer = client.post(f"{SWEEP}/resume", headers={"If-Match": stale})
        assert (answer.status_code, answer.json()["code"]) == (412, "changed_meanwhile")
    assert wishes(filled, "paused") == {True}
    assert client.post(f"{SWEEP}/resume", headers={"If-Match": first.headers["etag"]}).status_code == 200


def test_what_cannot_be_changed_is_refused(filled: Store, client: TestClient) -> None:
    assert client.post("/api/v1/sweeps/head-cuont/cancel", headers=ANY).status_code == 404
    assert client.post(f"{SWEEP}/cancel?force=1", headers=ANY).status_code == 422
    wrong = ("high", "1", True, 1.0, 2**40)
    for body in (*({"priority": value} for value in wrong), {"priorty": 1}, {}):
        assert client.post(f"{SWEEP}/priority", headers=ANY, json=body).status_code == 422
    assert wishes(filled, "priority") == {0}
    assert client.get(f"{SWEEP}/cancel").status_code == 405


def test_only_the_owner_or_an_admin_changes_a_sweep(filled: Store, client: TestClient) -> None:
    texts = {}
    with filled.write() as session:
        for name, scope in (("tester", "submit"), ("bob", "submit"), ("root", "admin"), ("eve", "read")):
            texts[name] = create_token(session, name, scope, expires=None, by="root")  # type: ignore[arg-type]
    found = {
        name: client.post(f"{SWEEP}/pause", headers=ANY | {"Authorization": f"Bearer {text}"})
        for name, text in texts.items()
    }
    assert {name: a.status_code for name, a in found.items()} == {
        "tester": 200,
        "bob": 403,
        "root": 200,
        "eve": 403,
    }
    for name, status in (("bob", 403), ("eve", 403), ("tester", 204)):
        headers = ANY | {"Authorization": f"Bearer {texts[name]}"}
        assert client.delete(SWEEP, headers=headers).status_code == status
    assert found["bob"].json()["code"] == "not_the_owner"
    assert found["eve"].json()["code"] == "scope_insufficient"

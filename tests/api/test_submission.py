"""A sweep sent to the service: planned, stored once, and refused with the reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Job, Sweep
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.planning.plan import plan
from headcount.trainer.data import prepare

YAML = """\
name: sent
job:
  model: {residual: mhar}
  train: {steps: 40}
axes:
  model.routing_heads: [1, 4]
  train.peak_lr: [1e-3]
seeds: [0, 1]
"""
FIELDS = {
    "name": "sent",
    "job": {"model": {"residual": "mhar"}, "train": {"steps": 40}},
    "axes": {"model.routing_heads": [1, 4], "train.peak_lr": [1e-3]},
    "seeds": [0, 1],
}


def send(client: TestClient, body: str | bytes, media: str = "application/yaml", query: str = "") -> Any:
    return client.post(f"/api/v1/sweeps{query}", content=body, headers={"Content-Type": media})


def sweeps_of(store: Store) -> list[str]:
    with store.read() as session:
        return list(session.scalars(select(Sweep.name)))


def test_a_sweep_is_stored_as_it_is_planned(store: Store, client: TestClient, tmp_path: Path) -> None:
    answer = send(client, YAML)
    assert answer.status_code == 201
    assert answer.headers["location"] == "/api/v1/sweeps/sent"
    assert answer.json() == {"sweep": "sent", "new": 6, "known": 0, "shared": 0, "requeued": 0}
    expected = plan(parse_spec(YAML, "file"), lambda config: prepare(config, tmp_path))
    with store.read() as session:
        assert set(session.scalars(select(Job.id))) == {job.id for job in expected.jobs}
    view = client.get(answer.headers["location"]).json()
    assert (view["yaml"], view["states"]["queued"], view["state"]) == (YAML, 6, "queued")


def test_json_and_yaml_are_the_same_sweep_and_known_jobs_are_not_made_twice(
    store: Store, client: TestClient
) -> None:
    assert send(client, YAML).status_code == 201
    again = send(client, json.dumps(FIELDS), "application/json; charset=utf-8")
    assert again.status_code == 201
    assert again.json() == {"sweep": "sent", "new": 0, "known": 6, "shared": 0, "requeued": 0}
    other = send(client, json.dumps(FIELDS | {"name": "other"}), "application/json")
    assert other.json() == {"sweep": "other", "new": 0, "known": 0, "shared": 6, "requeued": 0}


def test_a_dry_run_answers_with_the_plan_and_submits_nothing(store: Store, client: TestClient) -> None:
    answer = send(client, YAML, query="?dry_run=true")
    assert answer.status_code == 200
    found = answer.json()
    assert (found["jobs"], found["new"], found["seeds"]) == (6, 6, [0, 1])
    assert [(c["settings"], c["is_control"]) for c in found["cells"]] == [
        ({"model.routing_heads": 1, "train.peak_lr": 1e-3}, False),
        ({"model.routing_heads": 4, "train.peak_lr": 1e-3}, False),
        ({"train.peak_lr": 1e-3}, True),
    ]
    assert found["flops"] == pytest.approx(2 * sum(c["flops"] for c in found["cells"]))
    assert sweeps_of(store) == []
    send(client, YAML)
    assert send(client, YAML, query="?dry_run=true").json()["new"] == 0


def test_a_dry_run_tells_the_time_and_what_an_edit_changes(store: Store, client: TestClient) -> None:
    found = send(client, YAML, query="?dry_run=true").json()
    assert found["difference"] is None
    time = found["time"]
    assert (time["jobs"], time["device"]) == (6, "cpu")
    assert 0 < time["seconds"]["low"] < time["seconds"]["typical"] < time["seconds"]["high"]
    assert time["basis"].startswith("a model")
    send(client, YAML)
    edited = YAML.replace("[1, 4]", "[1, 2]").replace("seeds: [0, 1]", "seeds: [0]\npriority: 3")
    assert send(client, edited, query="?dry_run=true").json()["difference"] == {
        "added": [{"model.routing_heads": 2, "train.peak_lr": 1e-3}],
        "removed": [{"model.routing_heads": 4, "train.peak_lr": 1e-3}],
        "kept": 2,
        "seeds_added": [],
        "seeds_removed": [1],
        "edited": ["priority"],
        "exploratory": False,
    }


def test_a_dry_run_of_a_search_tells_what_it_costs_at_most(store: Store, client: TestClient) -> None:
    search = YAML.replace("[1e-3]", "{low: 1e-4, high: 1e-2, log: true}")
    search += "search: {method: tpe, trials: 10, fresh_seeds: 3}\n"
    found = send(client, search, query="?dry_run=true").json()
    # ten cells and their controls at two seeds, and the best of them and its control at three more
    assert (found["jobs"], found["to_come"]["jobs"], found["time"]["jobs"]) == (0, 46, 46)
    assert found["to_come"]["flops"] > 0
    assert sweeps_of(store) == []
    assert send(client, search).status_code == 201
    view = client.get("/api/v1/sweeps/sent").json()
    assert (view["state"], view["growing"], view["growth"]) == (
        "queued",
        True,
        ["Search by tpe: 0 of 10 trials"],
    )


def test_the_example_of_the_description_is_a_sweep(client: TestClient) -> None:
    description = client.get("/api/v1/openapi.json").json()
    body = description["paths"]["/api/v1/sweeps"]["post"]["requestBody"]["content"]["application/json"]
    answer = send(client, json.dumps(body["example"]), "application/json", "?dry_run=true")
    assert (answer.status_code, answer.json()["jobs"]) == (200, 15)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            {"job": {"data": {"text": "/etc/passwd"}}},
            "names a data source that the service knows, not a path",
        ),
        ({"axes": {"data.text": ["/etc/passwd"]}}, "names a data source that the service knows, not a path"),
        ({"job": {"data": {"source": "../../etc"}}}, "../../etc"),
        ({"axes": {"model.routing_head": [1]}}, "did you mean 'model.routing_heads'"),
        ({"axes": {"model.routing_heads": [3]}}, "3 does not divide model.d_model (64)"),
        ({"axes": {"train.peak_lr": list(range(1, 501))}, "seeds": list(range(500))}, "at most 100000"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_with_the_reason(
    store: Store, client: TestClient, change: dict[str, Any], reason: str
) -> None:
    for query in ("", "?dry_run=true"):
        answer = send(client, json.dumps(FIELDS | change), "application/json", query)
        assert (answer.status_code, answer.json()["code"]) == (422, "not_possible")
        assert reason in answer.json()["detail"]
    assert sweeps_of(store) == []


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        (YAML, "text/plain", 415),
        (YAML, "application/x-www-form-urlencoded", 415),
        (b"\xff\xfe", "application/yaml", 422),
        ("{", "application/json", 422),
        ('{"name": NaN}', "application/json", 422),
        ("[" * 100_000, "application/json", 422),
        ("[" * 2_000, "application/yaml", 422),
        ("name: &a [*a]", "application/yaml", 422),
        ("", "application/yaml", 422),
        ("!!python/object/apply:os.system [ls]", "application/yaml", 422),
        ("name: a\0b", "application/yaml", 422),
        ('{"name": "\\ud800"}', "application/json", 422),
    ],
)
def test_a_body_that_is_no_sweep_file_is_refused(
    store: Store, client: TestClient, body: str | bytes, media: str, status: int
) -> None:
    answer = send(client, body, media)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    with store.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0

"""Whole curves over REST: the very bytes that a job left, found by kind alone."""

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient
from raw_sweep import MOMENT, RawCell, write_sweep

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Artifact

LOSSES = np.array([5.5, 4.25, np.nan, 3.1], dtype=np.float32)


@pytest.fixture
def job(store: Store, tmp_path: Path) -> str:
    """A job with the loss of four updates, and how its sites routed."""
    file = io.BytesIO()
    np.save(file, LOSSES)
    contents = {
        "curve": ("training_loss.npy", file.getvalue()),
        "routing": ("routing.jsonl", b'{"step": 4}\n'),
    }
    with store.write() as session:
        job = write_sweep(session, "one", {}, [RawCell({}, {0: 3.1})])[0][0]
        for kind, (name, content) in contents.items():
            key = f"jobs/{job[:2]}/{job}/{name}"
            path = tmp_path / "artifacts" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            digest = hashlib.sha256(content).hexdigest()
            session.add(Artifact(key=key, job_id=job, kind=kind, step=4, sha256=digest, created=MOMENT))
    return job


def test_the_files_of_a_job_are_listed_and_given_whole(client: TestClient, job: str) -> None:
    listed = client.get(f"/api/v1/jobs/{job}/artifacts").json()["items"]
    assert [(item["kind"], item["step"]) for item in listed] == [("curve", 4), ("routing", 4)]
    curve = client.get(f"/api/v1/jobs/{job}/artifacts/curve")
    assert hashlib.sha256(curve.content).hexdigest() == listed[0]["sha256"]
    np.testing.assert_array_equal(np.load(io.BytesIO(curve.content), allow_pickle=False), LOSSES)
    assert curve.headers["content-disposition"] == f'attachment; filename="{job[:12]}-training_loss.npy"'
    again = client.get(
        f"/api/v1/jobs/{job}/artifacts/curve", headers={"If-None-Match": curve.headers["etag"]}
    )
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(f"/api/v1/jobs/{job}/artifacts/routing").json() == {"step": 4}


def test_the_training_loss_of_every_update_is_a_table(client: TestClient, job: str) -> None:
    answer = client.get(f"/api/v1/jobs/{job}/training-loss.csv")
    assert answer.text == "update,loss\n1,5.5\n2,4.25\n3,\n4,3.1\n"


def test_a_file_that_is_gone_or_changed_is_not_given(client: TestClient, job: str, tmp_path: Path) -> None:
    (file,) = (tmp_path / "artifacts").rglob("training_loss.npy")
    file.write_bytes(file.read_bytes() + b"x")
    for path in ("artifacts/curve", "training-loss.csv"):
        assert "is not as the job left it" in client.get(f"/api/v1/jobs/{job}/{path}").json()["detail"]
    file.unlink()
    answer = client.get(f"/api/v1/jobs/{job}/artifacts/curve")
    assert (answer.status_code, answer.json()["detail"].endswith("is not there any more")) == (404, True)


def test_only_kinds_that_there_are_can_be_asked_for(client: TestClient, job: str) -> None:
    assert client.get(f"/api/v1/jobs/{job}/artifacts/..%2F..%2Fheadcount.db").status_code in (404, 422)
    assert client.get(f"/api/v1/jobs/{job}/artifacts/checkpoint").status_code == 422
    assert client.get(f"/api/v1/jobs/{'0' * 64}/artifacts/curve").status_code == 404

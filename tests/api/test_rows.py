"""A whole sweep's evaluations in one call: every one, once, the same in every form."""

import csv
import io
import json
import tracemalloc

import pyarrow.parquet
import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import func, insert, select, update

from headcount.api import parquet, rows
from headcount.api.rows import stream_rows
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Attempt, Cell, Evaluation, Sweep, SweepJob

PATH = "/api/v1/sweeps/head-count/evaluations"
STATES = {(1, 1, 1e-3, 0): "queued", (4, 1, 1e-3, 1): "diverged", (8, 2, 1e-3, 0): "running"}


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        build_sweep(session, heads=(1, 4, 8), kv_heads=(1, 2), seeds=(0, 1), states=STATES)
        build_sweep(session, "other", heads=(1, 4, 8), kv_heads=(16,), seeds=(0,))
    return store


def test_every_evaluation_is_a_row_once(
    filled: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "BATCH", 3)
    with filled.read() as session:
        expected = session.execute(
            select(Evaluation.job_id, Evaluation.step, Evaluation.loss, Cell.settings, Cell.is_control)
            .join(SweepJob, SweepJob.job_id == Evaluation.job_id)
            .join(Cell, Cell.id == SweepJob.cell_id)
            .join(Sweep, Sweep.id == SweepJob.sweep_id)
            .where(Sweep.name == "head-count")
            .order_by(SweepJob.position, Evaluation.step)
        ).all()
    answer = client.get(f"{PATH}.csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="head-count-evaluations.csv"'
    found = list(csv.DictReader(io.StringIO(answer.text)))
    assert list(found[0]) == [
        "model.routing_heads",
        "model.kv_heads",
        "train.peak_lr",
        "role",
        "cell",
        "seed",
        "job",
        "state",
        "step",
        "loss",
    ]
    assert len(found) == len(expected)
    for row, (job_id, step, loss, settings, is_control) in zip(found, expected, strict=True):
        assert (row["job"], int(row["step"])) == (job_id, step)
        assert row["loss"] == ("" if loss is None else repr(loss))
        assert row["model.routing_heads"] == str(settings.get("model.routing_heads", ""))
        assert row["role"] == ("control" if is_control else "treatment")
    lines = [json.loads(line) for line in client.get(f"{PATH}.ndjson").text.splitlines()]
    assert [(r["job"], r["step"], r["loss"]) for r in lines] == [tuple(e[:3]) for e in expected]
    assert any(r["loss"] is None for r in lines)
    table = pyarrow.parquet.read_table(io.BytesIO(client.get(f"{PATH}.parquet").content))
    assert table.to_pylist() == lines


def test_a_sweep_without_evaluations_has_no_rows(store: Store, client: TestClient) -> None:
    waiting = {(h, 1, 1e-3, 0): "queued" for h in (None, 1, 4)}
    with store.write() as session:
        build_sweep(session, heads=(1, 4), kv_heads=(1,), seeds=(0,), states=waiting)
    header = client.get(f"{PATH}.csv").text
    assert header.endswith("state,step,loss\n")
    assert client.get(f"{PATH}.ndjson").text == ""
    assert pyarrow.parquet.read_table(io.BytesIO(client.get(f"{PATH}.parquet").content)).num_rows == 0


def test_rows_have_an_etag_and_other_forms_are_refused(filled: Store, client: TestClient) -> None:
    etag = client.get(f"{PATH}.csv").headers["etag"]
    assert client.get(f"{PATH}.csv", headers={"If-None-Match": etag}).status_code == 304
    assert client.get(f"{PATH}.ndjson", headers={"If-None-Match": etag}).status_code == 200
    answer = client.get(f"{PATH}.xlsx")
    assert (answer.status_code, answer.json()["code"]) == (406, "not_acceptable")
    assert ".csv, .ndjson" in answer.json()["detail"]
    assert client.get(f"{PATH}.csv?sort=x").status_code == 422
    assert client.get("/api/v1/sweeps/head-cuont/evaluations.csv").status_code == 404


def test_parquet_needs_pyarrow(filled: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    answer = client.get(f"{PATH}.parquet")
    assert (answer.status_code, answer.json()["detail"].endswith("there are .csv, .ndjson")) == (406, True)


def test_names_that_a_spreadsheet_would_run_are_quoted(filled: Store, client: TestClient) -> None:
    with filled.write() as session:
        session.execute(
            update(Cell).values(settings={"model.routing_heads": "=1+1", "model.kv_heads": 'a"b'})
        )
    assert '\n\'=1+1,"a""b",' in client.get(f"{PATH}.csv").text


def test_memory_does_not_grow_with_the_rows(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_BATCH", "BATCH"):
        monkeypatch.setattr(rows, name, 1)

    def peak() -> tuple[int, int]:
        written = 0
        tracemalloc.start()
        for part in stream_rows(filled, "head-count", "csv"):
            written += len(part)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return written, highest

    peak()
    with filled.write() as session:
        attempt = session.scalar(select(func.min(Attempt.id)))
        jobs = session.scalars(
            select(SweepJob.job_id)
            .join(Sweep, Sweep.id == SweepJob.sweep_id)
            .where(Sweep.name == "head-count")
        ).all()
        session.execute(
            insert(Evaluation),
            [
                {"job_id": job, "step": step, "attempt_id": attempt, "loss": 3.0}
                for job in jobs
                for step in range(1001, 2001)
            ],
        )
    written, highest = peak()
    assert written > 1_000_000
    assert highest < written  # the rows as Python objects would be several times what is written

"""Tables as Parquet: the numbers and types of the JSON, and no such form without pyarrow."""

import io
import math

import pyarrow.parquet
import pytest
from builders import build_sweep
from fastapi.testclient import TestClient

from headcount.api import parquet
from headcount.api.columns import records
from headcount.api.parquet import to_parquet
from headcount.api.results import ablation_table
from headcount.orchestrator.store import Store

SWEEP = "/api/v1/sweeps/head-count"


def test_a_table_has_every_column_with_its_type(store: Store, client: TestClient) -> None:
    with store.write() as session:
        build_sweep(session, states={(1, 1, 1e-3, 0): "diverged"}, missing=[(2, 1, 1e-3, 1)], curves=False)
    answer = client.get(f"{SWEEP}/table.parquet")
    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    by_accept = client.get(f"{SWEEP}/table", headers={"Accept": "application/vnd.apache.parquet"})
    assert by_accept.content == answer.content
    found = pyarrow.parquet.read_table(io.BytesIO(answer.content))
    with store.read() as session:
        rows = records(ablation_table(session, "head-count"))
    listed = [{k: list(v) if isinstance(v, tuple) else v for k, v in row.items()} for row in rows]
    assert found.to_pylist() == listed
    types = {field.name: str(field.type) for field in found.schema}
    assert types["mean"] == types["train.peak_lr"] == "double"
    assert (types["n"], types["mixed_environments"], types["note"]) == ("int64", "bool", "string")
    assert types["seeds"] == "list<element: int64>"


@pytest.mark.parametrize("path", ["tables/main.parquet", "free.parquet?rows=model.kv_heads"])
def test_named_and_free_tables_are_parquet_too(store: Store, client: TestClient, path: str) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 8), kv_heads=(1, 2), curves=False)
    told = client.get(f"{SWEEP}/{path.replace('parquet', 'json')}").json()
    found = pyarrow.parquet.read_table(io.BytesIO(client.get(f"{SWEEP}/{path}").content))
    rules = {name: told[name] for name in ("estimator", "test", "family", "sweep", "version")}
    rules["family_size"] = told["size"]
    assert found.to_pylist() == [row | rules for row in told["rows"]]


def test_values_of_several_kinds_are_text_and_what_is_not_finite_is_null() -> None:
    rows = [{"a": 1, "b": math.inf, "c": [1, 2]}, {"a": "x", "b": 2, "c": None}]
    found = pyarrow.parquet.read_table(io.BytesIO(to_parquet(rows)))
    assert found.to_pylist() == [{"a": "1", "b": None, "c": [1, 2]}, {"a": "x", "b": 2.0, "c": None}]


def test_without_pyarrow_there_is_no_such_form(
    store: Store, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 8), kv_heads=(1,), curves=False)
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    answer = client.get(f"{SWEEP}/table.parquet")
    assert (answer.status_code, ".parquet (" in answer.json()["detail"]) == (406, False)
    accepted = {"Accept": "application/vnd.apache.parquet"}
    assert client.get(f"{SWEEP}/table", headers=accepted).status_code == 406

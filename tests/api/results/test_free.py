"""The free table against plain SQL: grouped, filtered, and honest about what is missing."""

from collections import Counter

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

from headcount.api.results import Filters, QueryError, free_table
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Cell, Job, SweepJob

STATES = {(4, 1, 1e-3, 1): "diverged", (8, 2, 1e-3, 2): "failed"}


@pytest.fixture
def filled(store: Store) -> Store:
    with store.write() as session:
        build_sweep(session, heads=(1, 4, 8), kv_heads=(1, 2), states=STATES, curves=False)
    return store


SQL = """
SELECT CAST({kv} AS INTEGER), count(*) AS n, avg(tail_mean) AS mean, min(tail_mean) AS low
FROM job JOIN sweep_job ON job.id = sweep_job.job_id JOIN cell ON cell.id = sweep_job.cell_id
WHERE NOT cell.is_control AND CAST({heads} AS INTEGER) = 1 GROUP BY 1 ORDER BY 1
"""
FIELDS = {
    "sqlite": "json_extract(job.config, '$.\"model.{}\"')",
    "postgresql": "(job.config ->> 'model.{}')",
}


def test_groups_are_those_of_sql(filled: Store) -> None:
    with filled.read() as session:
        field = FIELDS[filled.engine.dialect.name].format
        sql = SQL.format(kv=field("kv_heads"), heads=field("routing_heads"))
        expected = session.execute(text(sql)).all()
        ours = free_table(
            session,
            "head-count",
            rows=["model.kv_heads"],
            statistics=("mean", "min", "n"),
            filters=Filters(heads=(1,), role="treatment"),
        ).rows
    assert [row["model.kv_heads"] for row in ours] == [kv for kv, *_ in expected]
    for row, (_, n, mean, low) in zip(ours, expected, strict=True):
        assert row["mean loss"] == pytest.approx(mean, abs=1e-12)
        assert row["min loss"] == pytest.approx(low, abs=1e-12)
        assert row["n loss"] == n == 3


NUMBERS = st.lists(st.integers(0, 9), max_size=3).map(tuple)
RATE = st.sampled_from([None, 1e-4, 1e-3, 2e-3])


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    filters=st.builds(
        Filters, NUMBERS, NUMBERS, RATE, RATE, NUMBERS, st.sampled_from([None, "treatment", "control"])
    )
)
def test_filters_keep_the_jobs_that_fit_all_of_them(filled: Store, filters: Filters) -> None:
    with filled.read() as session:
        rows = session.execute(
            select(Cell.settings, Cell.is_control, Job.seed)
            .join(SweepJob, SweepJob.cell_id == Cell.id)
            .join(Job, Job.id == SweepJob.job_id)
        ).all()
        kept = [
            seed
            for settings, is_control, seed in rows
            if (not filters.heads or settings.get("model.routing_heads") in filters.heads)
            and (not filters.kv_heads or settings["model.kv_heads"] in filters.kv_heads)
            and (filters.lr_min or 0) <= settings["train.peak_lr"] <= (filters.lr_max or 1)
            and (not filters.seeds or seed in filters.seeds)
            and (filters.role is None or is_control == (filters.role == "control"))
        ]
        if not kept:
            with pytest.raises(QueryError, match="no job that these filters keep"):
                free_table(session, "head-count", rows=["seed"], filters=filters)
            return
        found = free_table(session, "head-count", rows=["seed"], filters=filters).rows
    assert {row["seed"]: row["jobs"] for row in found} == Counter(kept)


def test_what_diverged_or_failed_is_told_and_nothing_rests_on_it(filled: Store) -> None:
    with filled.read() as session:
        table = free_table(
            session, "head-count", rows=["model.routing_heads"], columns="model.kv_heads", value="delta"
        )
    by_heads = {row["model.routing_heads"]: row for row in table.rows}
    assert by_heads[4]["mean model.kv_heads=1"] is None  # one of three diverged
    assert (by_heads[4]["diverged"], by_heads[4]["without_value"], by_heads[4]["jobs"]) == (1, 1, 6)
    assert (by_heads[8]["n model.kv_heads=2"], by_heads[8]["seeds"]) == (2, (0, 1, 2))
    assert by_heads[1]["mean model.kv_heads=1"] is not None
    assert by_heads[1]["without_value"] == 0
    assert None not in by_heads  # a control has no delta


def test_bad_questions_say_what_there_is(filled: Store) -> None:
    with filled.read() as session:
        with pytest.raises(QueryError, match="did you mean 'model"):
            free_table(session, "head-count", rows=["model.kv_head"])
        with pytest.raises(QueryError, match="each axis once"):
            free_table(session, "head-count", rows=["seed"], columns="seed")
        with pytest.raises(QueryError, match="no job that these filters keep"):
            free_table(session, "head-count", rows=["seed"], filters=Filters(seeds=(9,)))


def test_over_rest_fields_are_typed(filled: Store, client: TestClient) -> None:
    url = "/api/v1/sweeps/head-count/free"
    answer = client.get(
        f"{url}.csv?rows=seed&columns=model.kv_heads&heads=1&heads=8&statistic=max&value=delta"
    )
    assert answer.status_code == 200, answer.text
    assert answer.text.splitlines()[0].startswith("seed,max model.kv_heads=1,n model.kv_heads=1,max")
    assert len(answer.text.splitlines()) == 4
    etag = {"If-None-Match": answer.headers["etag"]}
    assert client.get(str(answer.url), headers=etag).status_code == 304
    for bad in (
        "",
        "rows=seed&statistic=mode",
        "rows=seed&heads=x",
        "rows=seed&where=1=1",
        "rows=seed&lr_min=0",
    ):
        assert client.get(f"{url}.json?{bad}").status_code == 422, bad
    assert client.get(f"{url}.json?rows=sed").json()["code"] == "not_possible"

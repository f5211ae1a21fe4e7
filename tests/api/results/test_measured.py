"""The tables `routing`, `probe` and `downstream` over rows as an instrument's job leaves them."""

import csv
import io
import json
import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient
from raw_sweep import MOMENT, RawCell, add_job, measure, write_sweep
from scipy import stats
from sqlalchemy.orm import Session
from statsmodels.stats.multitest import multipletests

from headcount.api.results import MEASURED, NotFoundError, QueryError, measured_table, results_version
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import touch_sweeps_of
from headcount.orchestrator.store.models import Job

AXES = {"model.routing_heads": (1, 4)}
SEEDS = range(3)


@pytest.fixture
def jobs(session: Session) -> list[dict[int, str]]:
    """A control and two treatments at three seeds; ids by cell and seed."""
    control = RawCell({}, dict.fromkeys(SEEDS, 3.5))
    treated = [RawCell({"model.routing_heads": h}, dict.fromkeys(SEEDS, 3.4), 0) for h in (1, 4)]
    return write_sweep(session, "measured", AXES, [control, *treated])


def test_routing_has_the_entropy_of_every_site(session: Session, jobs: list[dict[int, str]]) -> None:
    for cell in (1, 2):
        for seed, job in jobs[cell].items():
            sites = [0.1 * cell + 0.01 * seed + 0.2 * site for site in range(3)]
            measure(session, job, {"routing_entropy": float(np.mean(sites))})
            measure(session, job, {f"routing_entropy.{site}": value for site, value in enumerate(sites)})
            top = {0: 0.0, 1: 1.0, 2: 2.0 if seed else 0.0}
            measure(session, job, {f"routing_top_source.{site}": value for site, value in top.items()})
    found = measured_table(session, "measured", "routing")
    assert [r["model.routing_heads"] for r in found.rows] == [1, 4]
    for record in found.rows:
        cell = 1 if record["model.routing_heads"] == 1 else 2
        means = [0.1 * cell + 0.01 * seed + 0.2 for seed in SEEDS]
        assert record["entropy"] == pytest.approx(np.mean(means))
        assert record["entropy_sd"] == pytest.approx(np.std(means, ddof=1))
        assert record["site_entropies"] == pytest.approx([0.1 * cell + 0.01 + 0.2 * s for s in range(3)])
        assert record["site_top_sources"] == (0, 1, 2)
        assert (record["n"], record["seeds"]) == (3, (0, 1, 2))


def test_routing_is_of_finished_jobs_and_a_site_that_none_knows_keeps_its_place(
    session: Session, jobs: list[dict[int, str]]
) -> None:
    told = {"routing_entropy": 0.5, "routing_entropy.0": None, "routing_entropy.1": 0.7, "routing_speed": 9.0}
    tops = [{0: 0.0, 1: 3.0, 2: 3.0}, {0: None, 1: 2.0, 2: 1.0}]
    for seed, job in jobs[1].items():
        measure(
            session, job, told | {f"routing_top_source.{site}": top[seed] for site, top in enumerate(tops)}
        )
    for seed, job in jobs[2].items():
        measure(session, job, {"routing_entropy": 0.25 * seed, "routing_entropy.0": 0.5 * seed})
    session.get_one(Job, jobs[2][2]).state = "running"
    session.flush()
    first, second = measured_table(session, "measured", "routing").rows
    assert (first["entropy"], first["entropy_sd"], first["n"]) == (0.5, 0, 3)
    assert first["site_entropies"] == (None, pytest.approx(0.7))
    assert first["site_top_sources"] == (3, 1)
    assert (second["entropy"], second["site_entropies"], second["n"]) == (0.125, (0.25,), 2)
    assert second["site_top_sources"] == ()


def test_probe_takes_the_newest_finished_probe_of_each_job(
    session: Session, jobs: list[dict[int, str]]
) -> None:
    for seed, parent in jobs[2].items():
        for age, excess in ((0, 0.9), (1, 0.2 + seed / 10)):
            probe = f"{seed}{age}".rjust(64, "a")
            ended = MOMENT + timedelta(hours=age)
            add_job(session, probe, seed, None, config={}, kind="probe", parent=parent, ended=ended)
            measure(session, probe, {"probe.excess": excess, "probe.replication": None})
    found = measured_table(session, "measured", "probe")
    (record,) = found.rows
    assert record["excess"] == pytest.approx(np.mean([0.2, 0.3, 0.4]))
    assert record["excess_sd"] == pytest.approx(0.1)
    assert (record["n"], record["probed_seeds"]) == (3, (0, 1, 2))
    assert record["model.routing_heads"] == 4
    assert "replication" not in found.columns


def test_downstream_pairs_every_score_with_the_control_by_seed(
    session: Session, jobs: list[dict[int, str]]
) -> None:
    rng = np.random.default_rng(0)
    scores = rng.uniform(0.2, 0.4, (2, 3, len(SEEDS)))
    tasks = ("downstream.lambada.acc", "downstream.wikitext2.perplexity")
    for cell, ids in enumerate(jobs):
        for seed, parent in ids.items():
            told = {task: float(scores[i, cell, seed]) for i, task in enumerate(tasks)}
            told["downstream.lambada.acc.stderr"] = 0.01 * (1 + seed)
            job = f"{cell}{seed}".rjust(64, "b")
            add_job(session, job, seed, None, config={}, kind="evaluate", parent=parent)
            measure(session, job, told)
    found = measured_table(session, "measured", "downstream")
    assert len(found.rows) == 6
    p_values = []
    for i, record in enumerate(found.rows):
        cell, task = divmod(i, 2)
        assert f"downstream.{record['task']}.{record['metric']}" == tasks[task]
        assert record["score"] == pytest.approx(scores[task, cell].mean())
        errors = [0.01, 0.02, 0.03]
        expected = np.sqrt(np.mean(np.square(errors))) if task == 0 else None
        assert record["item_se"] == (pytest.approx(expected) if expected else None)
        if record["role"] == "treatment":
            test = stats.ttest_rel(scores[task, cell], scores[task, 0])
            assert record["delta"] == pytest.approx((scores[task, cell] - scores[task, 0]).mean())
            assert record["p"] == pytest.approx(test.pvalue, rel=1e-9)
            p_values.append(test.pvalue)
    adjusted = [r["adjusted_p"] for r in found.rows if r["role"] == "treatment"]
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-9)
    assert found.size == 4


def test_without_a_measurement_a_table_says_so(session: Session, jobs: list[dict[int, str]]) -> None:
    for name in MEASURED:
        with pytest.raises(QueryError, match=f"no job of sweep 'measured' has a measurement for .* '{name}'"):
            measured_table(session, "measured", name)
    with pytest.raises(NotFoundError):
        measured_table(session, "other", "probe")


def test_they_are_answered_over_rest_and_anew_after_another_probe(store: Store, client: TestClient) -> None:
    with store.write() as session:
        cells = [RawCell({}, {0: 3.5}), RawCell({"model.routing_heads": 4}, {0: 3.4}, 0)]
        parent = write_sweep(session, "measured", AXES, cells)[1][0]
    path = "/api/v1/sweeps/measured/tables/probe.csv"
    assert client.get(path).status_code == 422
    with store.write() as session:
        before = results_version(session, "measured")
        add_job(session, "c" * 64, 0, None, config={}, kind="probe", parent=parent)
        measure(session, "c" * 64, {"probe.excess": 0.25})
        touch_sweeps_of(session, ["c" * 64])
        session.expire_all()
        assert results_version(session, "measured") != before
    answer = client.get(path)
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert (row["excess"], row["n"], row["test"]) == ("0.25", "1", "none")
    assert client.get(path, headers={"If-None-Match": answer.headers["etag"]}).status_code == 304


def test_what_is_not_finite_is_null_over_rest_and_the_row_says_at_which_seed(
    store: Store, client: TestClient
) -> None:
    excess = {0: 0.2, 1: math.nan, 2: 0.4}
    scores = {0: math.inf, 1: math.nan, 2: -math.inf}
    with store.write() as session:
        cells = [
            RawCell({}, dict.fromkeys(SEEDS, 3.5)),
            RawCell({"model.routing_heads": 4}, dict.fromkeys(SEEDS, 3.4), 0),
        ]
        control, treated = write_sweep(session, "measured", AXES, cells)
        for seed, parent in treated.items():
            probe, scored = f"{seed}".rjust(64, "d"), f"{seed}".rjust(64, "e")
            add_job(session, probe, seed, None, config={}, kind="probe", parent=parent)
            measure(session, probe, {"probe.excess": excess[seed], "probe.null": math.inf})
            add_job(session, scored, seed, None, config={}, kind="evaluate", parent=parent)
            measure(session, scored, {"downstream.lambada.acc": scores[seed], "downstream.arc.acc": 0.5})
            measure(session, parent, {"tokens_per_second": math.inf})
        measure(session, control[0], {"tokens_per_second": math.inf})

    def rows(table: str) -> list[dict[str, Any]]:
        answer = client.get(f"/api/v1/sweeps/measured/tables/{table}.json")
        told = json.loads(answer.text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
        found: list[dict[str, Any]] = told["rows"]
        return found

    (probe_row,) = rows("probe")
    assert probe_row["excess"] == pytest.approx(0.3)
    assert probe_row["probed_seeds"] == [0, 2]
    assert probe_row["note"] == "no finite excess at seed 1; no finite null at seeds 0, 1, 2"
    arc, lambada = rows("downstream")
    assert (arc["score"], arc["n"], arc["note"]) == (0.5, 3, "")
    assert (lambada["score"], lambada["delta"], lambada["n"]) == (None, None, 0)
    assert lambada["note"] == "no finite score at seeds 0, 1, 2"
    assert [row["relative_to_control"] for row in rows("throughput")] == [None, None]
    for record in csv.DictReader(
        io.StringIO(client.get("/api/v1/sweeps/measured/tables/downstream.csv").text)
    ):
        assert record["score"] == ("0.5" if record["task"] == "arc" else "")

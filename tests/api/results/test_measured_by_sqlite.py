"""Tables of what was measured beside the loss, and of the errors inside jobs, by plain SQL over the file.

Nothing of ours is asked for the expected numbers: `sqlite3` sums, and the rest is a line of numpy.
"""

import sqlite3
from datetime import timedelta

import numpy as np
import pytest
from builders import build_sweep
from by_hand import SPREAD, ByHand, answer, drawn, same_estimate
from raw_sweep import MOMENT, RawCell, add_job, measure, write_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import MEASURED, TABLES
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Evaluation

TAILS = """
WITH tail AS (
  SELECT e.job_id, e.loss, row_number() OVER mine - 1 AS i, count(*) OVER (PARTITION BY e.job_id) AS n
  FROM evaluation e JOIN job j ON j.id = e.job_id
  WHERE j.state = 'finished' AND 4 * e.step >= 3 * j.step
  WINDOW mine AS (PARTITION BY e.job_id ORDER BY e.step)),
line AS (
  SELECT job_id, avg(loss) AS mean, sum(x * loss) / sum(x * x) AS slope
  FROM (SELECT job_id, loss, i - (n - 1) / 2.0 AS x FROM tail) GROUP BY job_id),
rest AS (
  SELECT job_id, i, n, loss - mean - slope * (i - (n - 1) / 2.0) AS r FROM tail JOIN line USING (job_id)),
paired AS (SELECT job_id, n, r, lag(r) OVER (PARTITION BY job_id ORDER BY i) AS before FROM rest)
SELECT w.cell_id AS cell, n, sum(r * r) AS squares, sum(r * before) AS products
FROM paired JOIN sweep_job w USING (job_id) GROUP BY w.cell_id, job_id
"""

WINDOWS = f"""
SELECT cell, avg(variance / n) AS se2 FROM (
  SELECT cell, job_id, {SPREAD} FROM (
    SELECT w.cell_id AS cell, w.job_id, o.value - coalesce(t.value, 0) AS x
    FROM sweep_job w JOIN job j ON j.id = w.job_id
    JOIN evaluation e ON e.job_id = j.id AND e.step = j.step JOIN json_each(e.window_losses) o
    LEFT JOIN evaluation k ON k.job_id = w.control_job_id AND k.step = j.step AND ?
    LEFT JOIN json_each(k.window_losses) t ON t.key = o.key
    WHERE j.state = 'finished' AND (NOT ? OR w.control_job_id IS NOT NULL))
  GROUP BY cell, job_id)
GROUP BY cell
"""
"""With a true parameter, of the differences to the control over the same windows."""


def _step_variance(row: sqlite3.Row) -> float:
    n, squares = row["n"], row["squares"]
    rho = min(max((n * row["products"] / squares + 2) / (n - 4), 0), 0.99)
    inflation = 1 + 2 * sum((1 - k / n) * rho**k for k in range(1, n))
    return float(squares / (n - 2) * inflation / n)


def test_errors(file_store: Store, by_hand: ByHand) -> None:
    rng = np.random.default_rng(3)
    shared = rng.normal(0, 0.2, 8)
    with file_store.write() as session:
        build_sweep(session, heads=(1, 8), kv_heads=(1,), states={(1, 1, 1e-3, 2): "running"})
        for row in session.scalars(select(Evaluation)):
            row.window_losses = (row.loss + shared + rng.normal(0, 0.01, 8)).tolist()
    steps: dict[int, list[float]] = {}
    for told in by_hand.ask(TAILS):
        steps.setdefault(told["cell"], []).append(_step_variance(told))
    own, apart = (
        {told["cell"]: told["se2"] ** 0.5 for told in by_hand.ask(WINDOWS, delta, delta)}
        for delta in (False, True)
    )
    table = answer(file_store, "head-count", "errors")
    assert {record["cell"] for record in table.rows} == steps.keys() == own.keys()
    for record in table.rows:
        cell = record["cell"]
        assert record["step_se"] == pytest.approx(np.mean(steps[cell]) ** 0.5, rel=1e-6)
        assert record["window_se"] == pytest.approx(own[cell], rel=1e-6)
        assert record["delta_window_se"] == (pytest.approx(apart[cell], rel=1e-6) if cell in apart else None)


@pytest.fixture
def jobs(file_store: Store) -> list[dict[int, str]]:
    """A control and two treatments, and what three kinds of instruments found; ids by cell and seed."""
    rng = np.random.default_rng(0)
    cells = [RawCell({}, drawn(rng, 3.5))]
    cells += [RawCell({"model.routing_heads": h}, drawn(rng, 3.4), 0) for h in (1, 4)]
    with file_store.write() as session:
        ids = write_sweep(session, "measured", {"model.routing_heads": (1, 4)}, cells)
        for cell, of_cell in enumerate(ids):
            for seed, job in of_cell.items():
                if cell:
                    _route(session, job, rng)
                for age in range(2):
                    child = f"{cell}{seed}{age}".rjust(64, "a")
                    ended = MOMENT + timedelta(hours=age)
                    add_job(session, child, seed, None, config={}, kind="probe", parent=job, ended=ended)
                    score = float(rng.uniform())
                    measure(session, child, {"probe.excess": score, "downstream.quiz.acc": score / 2})
    return ids


def _route(session: Session, job: str, rng: np.random.Generator) -> None:
    entropies = rng.uniform(0.5, 1.5, 3).tolist()
    measure(session, job, {"routing_entropy": sum(entropies) / 3})
    measure(session, job, {f"routing_entropy.{site}": value for site, value in enumerate(entropies)})
    measure(
        session, job, {f"routing_top_source.{site}": float(rng.integers(0, site + 1)) for site in range(3)}
    )


ROUTING = """
SELECT w.cell_id AS cell, avg(m.value) AS mean FROM sweep_job w JOIN measurement m ON m.job_id = w.job_id
WHERE m.name = ? GROUP BY w.cell_id
"""
TOP = """
SELECT cell, value FROM (
  SELECT w.cell_id AS cell, m.value, row_number() OVER (
    PARTITION BY w.cell_id ORDER BY count(*) DESC, m.value) AS place
  FROM sweep_job w JOIN measurement m ON m.job_id = w.job_id WHERE m.name = ? GROUP BY w.cell_id, m.value)
WHERE place = 1
"""


def test_routing(file_store: Store, by_hand: ByHand, jobs: list[dict[int, str]]) -> None:
    table = answer(file_store, "measured", "routing")
    overall, *sites = (
        dict(map(tuple, by_hand.ask(ROUTING, f"routing_entropy{site}"))) for site in ("", ".0", ".1", ".2")
    )
    top = [dict(map(tuple, by_hand.ask(TOP, f"routing_top_source.{site}"))) for site in range(3)]
    assert {record["cell"] for record in table.rows} == overall.keys()
    for record in table.rows:
        cell = record["cell"]
        assert record["entropy"] == pytest.approx(overall[cell])
        assert record["site_entropies"] == pytest.approx([site[cell] for site in sites])
        assert record["site_top_sources"] == tuple(site[cell] for site in top)


NEWEST = """
WITH newest AS (
  SELECT j.parent_id, m.name, m.value,
         row_number() OVER (PARTITION BY j.parent_id, m.name ORDER BY j.ended DESC) AS age
  FROM job j JOIN measurement m ON m.job_id = j.id WHERE j.state = 'finished')
"""
PROBE = f"""{NEWEST}
SELECT w.cell_id AS cell, avg(n.value) AS mean FROM newest n JOIN sweep_job w ON w.job_id = n.parent_id
WHERE n.name = 'probe.excess' AND n.age = 1 GROUP BY w.cell_id
"""
DOWNSTREAM = f"""{NEWEST}
SELECT cell, avg(score) AS score, {SPREAD} FROM (
  SELECT w.cell_id AS cell, o.value AS score, o.value - t.value AS x
  FROM sweep_job w JOIN newest o ON o.parent_id = w.job_id AND o.age = 1 AND o.name = 'downstream.quiz.acc'
  LEFT JOIN newest t ON t.parent_id = w.control_job_id AND t.age = 1 AND t.name = o.name)
GROUP BY cell
"""


def test_probe_and_downstream(file_store: Store, by_hand: ByHand, jobs: list[dict[int, str]]) -> None:
    probed = dict(map(tuple, by_hand.ask(PROBE)))
    found = {record["cell"]: record["excess"] for record in answer(file_store, "measured", "probe").rows}
    assert found == pytest.approx(probed)
    scored = {row["cell"]: row for row in by_hand.ask(DOWNSTREAM)}
    table = answer(file_store, "measured", "downstream")
    assert [record["role"] for record in table.rows] == ["control", "treatment", "treatment"]
    for record in table.rows:
        row = scored[record["cell"]]
        assert record["score"] == pytest.approx(row["score"])
        told = [record[name] for name in ("delta", "low", "high", "p", "pairs")]
        if record["role"] == "control":
            assert told == [None] * 5
        else:
            same_estimate(told, row)


def test_no_table_is_left_out() -> None:
    here = {"width", "alignment", "scaling", "errors", "routing", "probe", "downstream"}
    elsewhere = {"main", "heads", "grid", "lr", "best_lr", "seeds", "tests", "shape", "throughput"}  # by_sql
    assert here | elsewhere == {*TABLES, *MEASURED}

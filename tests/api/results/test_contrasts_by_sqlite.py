"""Tables that set cells against each other, or against a law, by plain SQL over the store's file.

Nothing of ours is asked for the expected numbers: `sqlite3` sums, and the rest is a line of numpy.
"""

import json

import numpy as np
import pytest
from builders import build_sweep
from by_hand import SEEDS, SPREAD, ByHand, answer, drawn, same_estimate
from raw_sweep import RawCell, write_sweep

from headcount.orchestrator.store import Store

WIDTH = f"""
WITH delta AS (
  SELECT c.id AS cell, json_extract(c.settings, '$."model.d_model"') AS width,
         json_extract(c.settings, '$."model.routing_heads"') AS heads, j.seed, j.tail_mean - k.tail_mean AS d
  FROM cell c JOIN sweep_job w ON w.cell_id = c.id
  JOIN job j ON j.id = w.job_id JOIN job k ON k.id = w.control_job_id)
SELECT cell, {SPREAD} FROM (
  SELECT wide.cell, wide.d - narrow.d AS x FROM delta wide
  JOIN delta narrow ON narrow.heads = wide.heads AND narrow.seed = wide.seed AND narrow.width = 256
  WHERE wide.width > 256)
GROUP BY cell
"""


def test_width(file_store: Store, by_hand: ByHand) -> None:
    rng, widths = np.random.default_rng(1), (256, 512, 1024)
    cells = [RawCell({"model.d_model": w}, drawn(rng, 3.5 - i / 10)) for i, w in enumerate(widths)]
    for heads in (1, 4):
        for i, width in enumerate(widths):
            setting = {"model.d_model": width, "model.routing_heads": heads}
            cells.append(RawCell(setting, drawn(rng, 3.4 - i / 9, SEEDS[i % 2 :]), i))
    with file_store.write() as session:
        write_sweep(session, "wide", {"model.d_model": widths, "model.routing_heads": (1, 4)}, cells)
    expected = {row["cell"]: row for row in by_hand.ask(WIDTH)}
    table = answer(file_store, "wide", "width")
    assert len(expected) == 4
    for record in table.rows:
        told = [record[f"change_{name}"] for name in ("mean", "low", "high", "p", "pairs")]
        if record["cell"] in expected:
            same_estimate(told, expected[record["cell"]])
        else:
            assert (record["model.d_model"], told) == (256, [None] * 5)


ALIGNMENT = f"""
WITH loss AS (
  SELECT c.id AS cell, json_extract(c.settings, '$."model.residual"') AS residual,
         json_remove(c.settings, '$."model.residual"') AS others, j.seed, j.tail_mean AS loss
  FROM cell c JOIN sweep_job w ON w.cell_id = c.id JOIN job j ON j.id = w.job_id)
SELECT cell, avg(aligned) AS aligned, avg(sliced) AS sliced, {SPREAD} FROM (
  SELECT a.cell, a.loss AS aligned, s.loss AS sliced, a.loss - s.loss AS x FROM loss a
  JOIN loss s ON s.others = a.others AND s.seed = a.seed AND s.residual = 'mhar'
  WHERE a.residual = 'mhar_hw')
GROUP BY cell
"""


def test_alignment(file_store: Store, by_hand: ByHand) -> None:
    rng = np.random.default_rng(2)
    axes = {"model.residual": ("mhar", "mhar_hw"), "model.routing_heads": (1, 4), "model.kv_heads": (4,)}
    cells = [RawCell({"model.residual": "additive", "model.kv_heads": 4}, drawn(rng, 3.5))]
    for residual in axes["model.residual"]:
        for heads in (1, 4):
            setting = {"model.residual": residual, "model.routing_heads": heads, "model.kv_heads": 4}
            cells.append(RawCell(setting, drawn(rng, 3.4), 0))
    with file_store.write() as session:
        write_sweep(session, "aligned", axes, cells)
    expected = {row["cell"]: row for row in by_hand.ask(ALIGNMENT)}
    table = answer(file_store, "aligned", "alignment")
    assert {record["cell"] for record in table.rows} == expected.keys()
    for record in table.rows:
        row = expected[record["cell"]]
        assert (record["loss"], record["sliced_loss"]) == pytest.approx((row["aligned"], row["sliced"]))
        same_estimate([record[name] for name in ("delta", "low", "high", "p", "pairs")], row)


SCALING = """
SELECT c.id, c.is_control, avg(j.tail_mean) AS loss, j.flops,
       j.flops / (j.flops / (400 * 1024 + 41 * 64 * 128 / 3.0)) / avg(m.value) AS seconds
FROM cell c JOIN sweep_job w ON w.cell_id = c.id JOIN job j ON j.id = w.job_id
JOIN measurement m ON m.job_id = j.id AND m.name = 'tokens_per_second'
GROUP BY c.id
"""
"""FLOPs over FLOPs a token are a job's tokens: those trained on, and a third of those evaluated."""


def test_scaling(file_store: Store, by_hand: ByHand) -> None:
    """Losses lie on 1.7 + 1.5·(C / 10¹⁸)^−0.15, those of treatments at 1.3 times their own compute."""
    with file_store.write() as session:
        build_sweep(session, heads=(1, 4), kv_heads=(1, 2, 4, 8, 16), curves=False)
    compute = {1: 1e17, 2: 3e17, 4: 1e18, 8: 3e18, 16: 1e19}
    for row in by_hand.ask("SELECT id, config FROM job"):
        config = json.loads(row["config"])
        flops = compute[config["model.kv_heads"]]
        own = flops if config["model.residual"] == "additive" else 1.3 * flops
        loss = 1.7 + 1.5 * (own / 1e18) ** -0.15
        by_hand.ask("UPDATE job SET flops = ?, tail_mean = ? WHERE id = ?", flops, loss, row["id"])
    by_hand.connection.commit()
    expected = {row["id"]: row for row in by_hand.ask(SCALING)}
    table = answer(file_store, "head-count", "scaling")
    assert {record["cell"] for record in table.rows} == expected.keys()
    for record in table.rows:
        row = expected[record["cell"]]
        assert (record["loss"], record["flops"]) == pytest.approx((row["loss"], row["flops"]), rel=1e-12)
        assert record["seconds"] == pytest.approx(row["seconds"], rel=1e-9)
        law = 1.7 + 1.5 * (row["flops"] / 1e18) ** -0.15
        assert record["law_loss"] == pytest.approx(law, abs=1e-4)
        assert record["to_law"] == pytest.approx(row["loss"] - law, abs=1e-4)
        if not row["is_control"]:
            gain = ((row["loss"] - 1.7) / 1.5) ** (-1 / 0.15) * 1e18 / row["flops"]
            assert (gain, record["gain"]) == pytest.approx((1.3, gain), rel=3e-3)

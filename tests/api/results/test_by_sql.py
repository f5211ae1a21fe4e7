"""Every named table against SQL written by hand over the rows of the store.

Deltas are found here by each wish's control job, and there by the cells' controls: two ways to the same pair.
"""

from typing import Any

import numpy as np
import pytest
from builders import build_sweep
from scipy import stats
from sqlalchemy import text
from sqlalchemy.orm import Session
from statsmodels.stats.multitest import multipletests

from headcount.api.results import TABLES, NamedTable, ablation_table, named_table

HEADS, KV_HEADS, RATES, SEEDS = (1, 2, 4), (1, 2), (1e-4, 1e-3, 1e-2), range(4)
DIVERGED, MISSING = (2, 1, 1e-3, 1), (4, 2, 1e-2, 3)

CELLS = """
SELECT c.id, avg(j.tail_mean) AS loss, count(j.tail_mean) AS n,
       sum(CASE WHEN j.state = 'diverged' THEN 1 ELSE 0 END) AS diverged
FROM cell c JOIN sweep_job w ON w.cell_id = c.id JOIN job j ON j.id = w.job_id
GROUP BY c.id
"""

DELTAS = """
SELECT w.cell_id, j.seed, j.tail_mean - k.tail_mean AS delta
FROM sweep_job w JOIN job j ON j.id = w.job_id JOIN job k ON k.id = w.control_job_id
WHERE j.tail_mean IS NOT NULL AND k.tail_mean IS NOT NULL
ORDER BY w.cell_id, j.seed
"""

SQUARES = """
SELECT w.cell_id, sum((j.tail_mean - m.loss) * (j.tail_mean - m.loss)) AS squares
FROM sweep_job w JOIN job j ON j.id = w.job_id
JOIN (SELECT x.cell_id, avg(y.tail_mean) AS loss FROM sweep_job x JOIN job y ON y.id = x.job_id
      GROUP BY x.cell_id) m ON m.cell_id = w.cell_id
WHERE j.tail_mean IS NOT NULL
GROUP BY w.cell_id
"""

LOSSES = """
SELECT w.cell_id, j.seed, j.tail_mean FROM sweep_job w JOIN job j ON j.id = w.job_id
WHERE j.tail_mean IS NOT NULL ORDER BY w.cell_id, j.seed
"""

SPEED = """
SELECT c.id, avg(m.value) AS own,
       (SELECT avg(n.value) FROM sweep_job x JOIN measurement n ON n.job_id = x.job_id
        WHERE x.cell_id = c.control_id AND n.name = 'tokens_per_second') AS control
FROM cell c JOIN sweep_job w ON w.cell_id = c.id JOIN measurement m ON m.job_id = w.job_id
WHERE m.name = 'tokens_per_second' GROUP BY c.id, c.control_id
"""


class Rows:
    """What SQL says of every cell."""

    def __init__(self, session: Session) -> None:
        def ask(query: str) -> list[Any]:
            return list(session.execute(text(query)).all())

        self.cells = {row.id: row for row in ask(CELLS)}
        squares = dict(ask(SQUARES))
        self.sd = {cell: (squares[cell] / (row.n - 1)) ** 0.5 for cell, row in self.cells.items()}
        self.deltas: dict[int, dict[int, float]] = {}
        for cell, seed, delta in ask(DELTAS):
            self.deltas.setdefault(cell, {})[seed] = delta
        self.losses: dict[int, dict[int, float]] = {}
        for cell, seed, loss in ask(LOSSES):
            self.losses.setdefault(cell, {})[seed] = loss
        self.speed = {row.id: row for row in ask(SPEED)}

    def loss(self, cell: int) -> float | None:
        """The mean of a cell without a diverged job."""
        return None if self.cells[cell].diverged else self.cells[cell].loss


@pytest.fixture
def session_with_sweep(session: Session) -> Session:
    build_sweep(
        session,
        heads=HEADS,
        kv_heads=KV_HEADS,
        rates=RATES,
        seeds=SEEDS,
        states={DIVERGED: "diverged"},
        missing=[MISSING],
        curves=False,
    )
    session.execute(
        text("UPDATE measurement SET value = value * (1 + 0.01 * (SELECT seed FROM job WHERE id = job_id))")
    )
    session.execute(
        text(
            "UPDATE measurement SET value = 0.9 * value WHERE job_id IN "
            "(SELECT job_id FROM sweep_job WHERE control_job_id IS NOT NULL)"
        )
    )
    session.flush()
    return session


def _table(session: Session, name: str) -> tuple[NamedTable, Rows]:
    return named_table(ablation_table(session, "head-count"), name), Rows(session)


@pytest.mark.parametrize("name", ["main", "heads", "lr", "seeds"])
def test_losses_and_deltas_of_each_cell(session_with_sweep: Session, name: str) -> None:
    table, rows = _table(session_with_sweep, name)
    controls = name in ("main", "lr")
    assert len(table.rows) == len(HEADS) * len(KV_HEADS) * len(RATES) + controls * len(KV_HEADS) * len(RATES)
    for record in table.rows:
        cell, said = record["cell"], rows.cells[record["cell"]]
        assert record["loss"] == pytest.approx(rows.loss(cell), abs=1e-12)
        assert record["n"] == (0 if said.diverged else said.n)
        if not said.diverged:
            assert record["sd"] == pytest.approx(rows.sd[cell], rel=1e-9)
            assert record["se"] == pytest.approx(rows.sd[cell] / said.n**0.5, rel=1e-9)
        deltas = list(rows.deltas.get(cell, {}).values())
        if said.diverged or not deltas:
            assert (record["delta"], record["p"], record["pairs"]) == (None, None, None)
            continue
        test = stats.ttest_1samp(deltas, 0)
        assert record["pairs"] == len(deltas) == (3 if said.n == 3 else 4)
        assert record["delta"] == pytest.approx(sum(deltas) / len(deltas), abs=1e-12)
        assert record["p"] == pytest.approx(test.pvalue, rel=1e-6)
        assert [record["low"], record["high"]] == pytest.approx(test.confidence_interval(), abs=1e-9)


def test_seeds_has_every_loss_and_delta(session_with_sweep: Session) -> None:
    table, rows = _table(session_with_sweep, "seeds")
    for record in table.rows:
        cell = record["cell"]
        for seed in SEEDS:
            assert record[f"loss_{seed}"] == rows.losses[cell].get(seed)
            if not rows.cells[cell].diverged:
                assert record[f"delta_{seed}"] == rows.deltas[cell].get(seed)
    lacking = [r["cell"] for r in table.rows if r["loss_3"] is None]
    assert len(lacking) == 1


def test_grid_has_the_mean_of_each_cell_in_its_place(session_with_sweep: Session) -> None:
    table, rows = _table(session_with_sweep, "grid")
    treatments = ablation_table(session_with_sweep, "head-count").treatments
    places = {tuple(row.settings.values()): row.cell for row in treatments}
    assert len(table.rows) == len(KV_HEADS) * len(RATES)
    for record in table.rows:
        at = record["model.kv_heads"], record["train.peak_lr"]
        cells = [places[heads, *at] for heads in HEADS]
        for heads, cell in zip(HEADS, cells, strict=True):
            assert record[f"model.routing_heads={heads}"] == pytest.approx(rows.loss(cell), abs=1e-12)
        assert record["fewest_seeds"] == min(0 if rows.cells[c].diverged else rows.cells[c].n for c in cells)
        assert record["seeds"] == tuple(SEEDS)
        assert record["seeds_diverged"] == tuple(sorted({DIVERGED[3]} if at == DIVERGED[1:3] else ()))
        assert record["tokens_per_second"] == pytest.approx(np.mean([rows.speed[c].own for c in cells]))


def test_best_lr_is_the_lowest_mean_of_each_side(session_with_sweep: Session) -> None:
    table, rows = _table(session_with_sweep, "best_lr")
    assert [record["equal_grids"] for record in table.rows].count(
        False
    ) == 2  # one diverged, one lacks a seed
    cells = ablation_table(session_with_sweep, "head-count").rows
    for record in table.rows:
        heads, kv_heads = record["model.routing_heads"], record["model.kv_heads"]
        sides, grids = [], []
        for wanted in (
            {"model.routing_heads": heads, "model.kv_heads": kv_heads},
            {"model.kv_heads": kv_heads},
        ):
            side = [
                (rows.loss(c.cell), c.settings["train.peak_lr"], c.cell)
                for c in cells
                if {a: v for a, v in c.settings.items() if a != "train.peak_lr"} == wanted
                and rows.cells[c.cell].n == len(SEEDS)
                and not rows.cells[c.cell].diverged
            ]
            sides.append(min(side))
            grids.append({r for _, r, _ in side})
        (loss, rate, cell), (control_loss, control_rate, control) = sides
        assert (record["best_rate"], record["control_rate"]) == (rate, control_rate)
        assert record["equal_grids"] == (grids[0] == grids[1])
        assert (record["loss"], record["control_loss"]) == pytest.approx((loss, control_loss), abs=1e-12)
        pairs = [rows.losses[cell][seed] - rows.losses[control][seed] for seed in SEEDS]
        assert record["delta"] == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


def test_throughput_is_the_mean_speed_beside_the_controls(session_with_sweep: Session) -> None:
    table, rows = _table(session_with_sweep, "throughput")
    for record in table.rows:
        said = rows.speed[record["cell"]]
        assert record["tokens_per_second"] == pytest.approx(said.own, rel=1e-12)
        expected = None if said.control is None else pytest.approx(said.own / said.control, rel=1e-12)
        assert record["relative_to_control"] == expected


def test_tests_are_those_of_the_deltas(session_with_sweep: Session) -> None:
    table, rows = _table(session_with_sweep, "tests")
    assert (len(table.rows), table.size) == (18, 18)
    p_values = []
    for record in table.rows:
        if rows.cells[record["cell"]].diverged:
            p_values.append(1.0)
            assert {record[name] for name in ("delta", "p", "adjusted_p", "signed_rank_p")} == {None}
            continue
        deltas = list(rows.deltas[record["cell"]].values())
        test = stats.ttest_1samp(deltas, 0)
        assert (record["t"], record["p"]) == pytest.approx((test.statistic, test.pvalue), rel=1e-6)
        assert record["signed_rank_p"] == pytest.approx(stats.wilcoxon(deltas, method="exact").pvalue)
        assert record["rank_floor"] == 2 / 2 ** len(deltas)
        p_values.append(record["p"])
    told = [record["p"] is not None for record in table.rows]
    for name, method in (("adjusted_p", "holm"), ("bh_p", "fdr_bh"), ("by_p", "fdr_by")):
        expected = multipletests(p_values, method=method)[1][told]
        assert [r[name] for r in table.rows if r["p"] is not None] == pytest.approx(expected.tolist())


def test_shape_has_the_rises_of_the_ends(session_with_sweep: Session) -> None:
    table, rows = _table(session_with_sweep, "shape")
    cells = ablation_table(session_with_sweep, "head-count").treatments
    assert len(table.rows) == len(KV_HEADS) * len(RATES)
    for record in table.rows:
        at = record["model.kv_heads"], record["train.peak_lr"]
        line = {
            c.settings["model.routing_heads"]: c.cell for c in cells if tuple(c.settings.values())[1:] == at
        }
        if at == DIVERGED[1:3]:
            assert (record["note"], record["p"]) == ("no losses, or a diverged seed, at 2", None)
            continue
        ends = []
        for end in (1, 4):
            mine, middle = rows.losses[line[end]], rows.losses[line[2]]
            rises = [mine[seed] - middle[seed] for seed in SEEDS if seed in mine and seed in middle]
            ends.append(stats.ttest_1samp(rises, 0, alternative="greater").pvalue)
            assert record[f"rise_{end}"] == pytest.approx(np.mean(rises), abs=1e-12)
            assert record[f"rise_{end}_p"] == pytest.approx(ends[-1], rel=1e-6)
        assert record["p"] == pytest.approx(max(ends), rel=1e-6)


def test_every_table_is_checked_against_what_was_written() -> None:
    here = {"main", "heads", "lr", "seeds", "tests", "shape", "grid", "best_lr", "throughput"}
    elsewhere = {"width", "alignment", "scaling"}  # test_contrasts, test_scaling
    assert set(TABLES) == here | elsewhere

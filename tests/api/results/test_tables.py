"""The ablation table against SQL and numpy, and what it says where seeds are missing."""

import numpy as np
import pytest
from builders import CONTROL, STEPS, build_sweep
from scipy import stats
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from headcount.api.results import (
    NotFoundError,
    TableRow,
    ablation_table,
    grid,
    head_curve,
    paired_statistics,
)
from headcount.orchestrator.store import Store


def row_of(rows: tuple[TableRow, ...], **settings: float) -> TableRow:
    wanted = {f"model.{k}": v for k, v in settings.items()}
    return next(r for r in rows if wanted.items() <= r.settings.items())


def test_the_table_is_sql_and_numpy(session: Session) -> None:
    build_sweep(session)
    table = ablation_table(session, "head-count")
    # straight from the evaluations: the mean over the last quarter of the steps, job by job
    query = text(
        "SELECT sj.cell_id, j.seed, c.control_id, AVG(e.loss) FROM sweep_job sj"
        " JOIN job j ON j.id = sj.job_id JOIN cell c ON c.id = sj.cell_id"
        " JOIN evaluation e ON e.job_id = j.id AND 4 * e.step >= 3 * :steps"
        " GROUP BY sj.cell_id, j.seed, c.control_id ORDER BY j.seed"
    )
    losses: dict[int, list[float]] = {}
    controls = {}
    for cell, _, control, loss in session.execute(query, {"steps": STEPS}):
        losses.setdefault(cell, []).append(loss)
        controls[cell] = control
    assert len(losses) == len(table.rows) == 18
    for row in table.rows:
        mine = np.array(losses[row.cell])
        assert (row.mean, row.sd) == (pytest.approx(mine.mean()), pytest.approx(mine.std(ddof=1)))
        assert (row.n, row.seeds, row.control) == (3, (0, 1, 2), controls[row.cell])
        if row.is_control:
            assert row.delta is None
            continue
        reference = stats.ttest_rel(mine, losses[controls[row.cell]])
        interval = reference.confidence_interval(0.95)
        assert row.delta is not None
        assert row.delta.mean == pytest.approx(np.mean(mine - losses[controls[row.cell]]))
        assert (row.delta.low, row.delta.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
        assert row.delta.p == pytest.approx(reference.pvalue)


def test_ranks_follow_the_means(session: Session) -> None:
    build_sweep(session)
    table = ablation_table(session, "head-count")
    ranked = sorted(table.treatments, key=lambda r: r.rank or 0)
    assert [r.rank for r in ranked] == list(range(1, 16))
    assert [r.mean for r in ranked] == sorted(r.mean for r in ranked if r.mean is not None)
    assert all(r.rank is None for r in table.controls)


def test_a_diverged_cell_has_no_mean_and_ranks_last(session: Session) -> None:
    build_sweep(session, states={(8, 4, 1e-3, 1): "diverged"})
    table = ablation_table(session, "head-count")
    row = row_of(table.rows, routing_heads=8, kv_heads=4)
    assert (row.state, row.note, row.rank) == ("diverged", "1 of 3 diverged", 15)
    assert (row.n, row.mean, row.sd, row.delta) == (0, None, None, None)
    assert (row.seeds, row.seeds_diverged, len(row.losses)) == ((0, 2), (1,), 2)
    assert sum(r.rank == 15 for r in table.rows) == 1


def test_a_diverged_control_leaves_no_delta(session: Session) -> None:
    build_sweep(session, states={(CONTROL, 4, 1e-3, 0): "diverged"})
    row = row_of(ablation_table(session, "head-count").treatments, routing_heads=8, kv_heads=4)
    assert (row.state, row.n, row.delta) == ("done", 3, None)
    assert row.note == "no delta: 1 of 3 of the control diverged"


def test_missing_and_failed_seeds_are_listed(session: Session) -> None:
    build_sweep(
        session,
        states={
            (2, 1, 1e-3, 0): "failed",
            (4, 1, 1e-3, 2): "running",
            (8, 1, 1e-3, 1): "queued",
            (8, 1, 1e-3, 2): "queued",
            (CONTROL, 1, 1e-3, 1): "cancelled",
        },
        missing=[(16, 1, 1e-3, 0)],
    )
    rows = ablation_table(session, "head-count").rows

    def seen(heads: int) -> tuple[object, ...]:
        row = row_of(rows, routing_heads=heads, kv_heads=1)
        assert row.delta is not None
        return row.state, row.n, row.seeds_missing, row.seeds_failed, row.delta.seeds, row.note

    assert seen(1) == ("done", 3, (), (), (0, 2), "")
    assert seen(2) == ("failed", 2, (), (0,), (2,), "1 of 3 failed")
    assert seen(4) == ("running", 2, (2,), (), (0,), "")
    assert seen(8) == ("missing", 1, (1, 2), (), (0,), "")
    assert seen(16) == ("missing", 2, (0,), (), (2,), "")
    one = row_of(rows, routing_heads=8, kv_heads=1)
    assert one.mean == one.losses[0]
    assert (one.sd, one.se) == (None, None)


def test_equal_jobs_have_deltas_of_exactly_0(session: Session) -> None:
    build_sweep(session)
    session.execute(text("UPDATE job SET tail_mean = 3.1 + seed * 0.07"))
    deltas = [r.delta for r in ablation_table(session, "head-count").treatments]
    assert {(d.mean, d.low, d.high, d.p) for d in deltas if d} == {(0.0, 0.0, 0.0, None)}


def test_an_infinite_tail_mean_is_no_number(session: Session) -> None:
    build_sweep(session)
    session.execute(text("UPDATE job SET tail_mean = :infinity WHERE seed = 1"), {"infinity": float("inf")})
    row = ablation_table(session, "head-count").rows[0]
    assert (row.n, row.seeds, row.seeds_missing) == (2, (0, 2), (1,))


def test_an_unknown_sweep_is_named_with_the_nearest(session: Session) -> None:
    with pytest.raises(NotFoundError, match="no sweep is called 'x'; no sweep has been submitted yet"):
        ablation_table(session, "x")
    build_sweep(session)
    with pytest.raises(NotFoundError, match="no sweep is called 'head-cuont'; did you mean 'head-count'"):
        ablation_table(session, "head-cuont")


def test_a_big_sweep_is_read_in_six_statements(store: Store) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 2, 4, 8, 16, 32), kv_heads=(1, 2, 4), rates=(1e-4, 1e-3), curves=False)
    statements: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("SELECT"):
            statements.append(statement)

    event.listen(store.engine, "before_cursor_execute", note)
    with store.read() as session:
        table = ablation_table(session, "head-count")
        grid(table), head_curve(table), paired_statistics(table)
    event.remove(store.engine, "before_cursor_execute", note)
    assert len(table.rows) == 42
    assert len(statements) == 6  # the sweep, its jobs, its cells, their costs; never the evaluations
    assert not any("evaluation" in s for s in statements)

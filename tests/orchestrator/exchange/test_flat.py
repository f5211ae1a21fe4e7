"""Flat files for other programs: what they hold, and that importing them gives the same table."""

import csv
import json
from pathlib import Path

import pytest
from builders import build_sweep
from sqlalchemy import select

from headcount.api.results import ablation_table
from headcount.orchestrator.exchange.external import import_runs
from headcount.orchestrator.exchange.flat import FORMS, write_flat
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Evaluation, Job
from headcount.trainer.errors import UserError

STATES = {(1, 1, 1e-3, 0): "diverged", (2, 1, 1e-3, 1): "queued"}
CONTROL = {"model.residual": "additive"}


@pytest.mark.parametrize("form", FORMS)
def test_a_sweep_comes_back_with_the_same_table(store: Store, tmp_path: Path, form: str) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"out.{form}"
    with store.write() as session:
        build_sweep(session, kv_heads=(1, 2), states=STATES)
    with store.read() as session:
        assert write_flat(session, "head-count", form, file) == len(
            session.scalars(select(Evaluation.step)).all()
        )
    import_runs(store, file, "again", {}, CONTROL, "me")
    with store.read() as session:
        theirs, ours = ablation_table(session, "again"), ablation_table(session, "head-count")
    known = {tuple(sorted(r.settings.items())): r for r in ours.rows}
    assert len(theirs.rows) == len(ours.rows) == 12
    for row in theirs.rows:
        settings = {axis: v for axis, v in row.settings.items() if axis != "model.residual"}
        own = known[tuple(sorted(settings.items()))]
        assert (row.seeds, row.seeds_diverged) == (own.seeds, own.seeds_diverged)
        assert row.losses == pytest.approx(own.losses, rel=1e-12)
        if own.delta:
            assert row.delta is not None
            assert row.delta.deltas == pytest.approx(own.delta.deltas, rel=1e-9)


def test_the_rows_are_the_stores_evaluations(store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), heads=(1, 2, 4), states={(1, 1, 1e-3, 0): "diverged"})
    with store.read() as session:
        write_flat(session, "head-count", "csv", tmp_path / "out.csv")
        write_flat(session, "head-count", "jsonl", tmp_path / "out.jsonl")
        stored = {
            (job, step): loss
            for job, step, loss in session.execute(
                select(Evaluation.job_id, Evaluation.step, Evaluation.loss)
            )
        }
        states = dict(session.execute(select(Job.id, Job.state)).all())
    with open(tmp_path / "out.csv", newline="") as text:
        rows = list(csv.DictReader(text))
    assert len(rows) == len(stored)
    for row in rows:
        loss = stored[row["job"], int(row["step"])]
        assert row["loss"] == ("nan" if loss is None else repr(loss))
        assert row["state"] == states[row["job"]]
        assert (row["role"] == "control") == (row["model.residual"] == "additive")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [str(line["loss"]) for line in lines] == [row["loss"] for row in rows]


def test_results_without_curves_are_a_row_a_run(store: Store, tmp_path: Path) -> None:
    with store.write() as session:
        build_sweep(session, kv_heads=(1,), curves=False)
        build_sweep(
            session,
            "young",
            kv_heads=(2,),
            heads=(1, 2, 4),
            seeds=(0,),
            states={(h, 2, 1e-3, 0): "queued" for h in (1, 2, 4, None)},
        )
    with store.read() as session:
        assert write_flat(session, "head-count", "csv", tmp_path / "out.csv") == 18
        with pytest.raises(UserError, match="the sweep 'young' has no loss yet"):
            write_flat(session, "young", "csv", tmp_path / "young.csv")
        with pytest.raises(UserError, match=r"cannot write .*No such file"):
            write_flat(session, "head-count", "csv", tmp_path / "nowhere" / "out.csv")
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".csv") == ["out.csv"]

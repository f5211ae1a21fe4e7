"""Runs of other programs as a sweep: what the rows say, and which rows are refused."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sqlalchemy import func, select

from headcount.api.results import ablation_table, job_view, jobs, paired_statistics, sweep_view
from headcount.orchestrator.exchange.checking import check_store
from headcount.orchestrator.exchange.external import ImportedRuns, import_runs
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Base, Job, Sweep, SweepJob
from headcount.orchestrator.store.steering import delete_sweep
from headcount.orchestrator.store.wishes import requeue
from headcount.trainer.errors import UserError

MAP = {"model.routing_heads": "H", "model.residual": "method", "loss": "val_loss"}
CONTROL = {"model.residual": "additive"}

LOSSES = {
    ("additive", "", 0): 3.50,
    ("additive", "", 1): 3.52,
    ("additive", "", 2): 3.54,
    ("mhar", "1", 0): 3.48,
    ("mhar", "1", 1): 3.51,
    ("mhar", "1", 2): 3.50,
    ("mhar", "4", 0): 3.44,
    ("mhar", "4", 1): 3.47,
    ("mhar", "4", 2): 3.46,
}


def write(file: Path, rows: list[str], header: str = "method,H,seed,val_loss,host") -> Path:
    file.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return file


def a_row_a_run(file: Path) -> Path:
    return write(file, [f"{m},{h},{seed},{loss},node" for (m, h, seed), loss in LOSSES.items()])


def read(
    store: Store,
    file: Path,
    mapping: Mapping[str, str] = MAP,
    control: Mapping[str, str] = CONTROL,
    name: str = "theirs",
) -> ImportedRuns:
    return import_runs(store, file, name, mapping, control, "me")


def test_a_row_a_run_is_a_table_like_any_other(store: Store, tmp_path: Path) -> None:
    found = read(store, a_row_a_run(tmp_path / "runs.csv"))
    assert found == ImportedRuns("theirs", 3, 1, 9, 0, 0, changed=True, unused=("host",))
    with store.read() as session:
        table = ablation_table(session, "theirs")
        assert table.external
        assert [(r.settings, r.is_control, r.n) for r in table.rows] == [
            ({"model.residual": "additive"}, True, 3),
            ({"model.routing_heads": 1, "model.residual": "mhar"}, False, 3),
            ({"model.routing_heads": 4, "model.residual": "mhar"}, False, 3),
        ]
        delta = table.rows[2].delta
        reference = stats.ttest_rel([3.44, 3.47, 3.46], [3.50, 3.52, 3.54])
        assert delta is not None
        assert (delta.p, delta.seeds) == (pytest.approx(reference.pvalue), (0, 1, 2))
        assert paired_statistics(table).family.size == 2
        view = sweep_view(session, "theirs")
        assert (view.state, view.progress, view.axes) == (
            "done",
            1.0,
            {"model.routing_heads": (1, 4), "model.residual": ("additive", "mhar")},
        )
        job = job_view(session, jobs(session, "theirs").jobs[0].id)
        assert (job.kind, job.attempts[0].environment["imported_from"]) == ("external", "runs.csv")
        assert job.attempts[0].environment["line"] == 2
    assert check_store(store) == []


def test_the_same_file_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    file = a_row_a_run(tmp_path / "runs.csv")
    read(store, file)

    def rows() -> list[object]:
        with store.read() as session:
            return [session.execute(select(*t.c)).all() for t in Base.metadata.sorted_tables]

    before = rows()
    assert not read(store, file).changed
    assert rows() == before
    write(file, ["mhar,1,0,3.1,node", "additive,,0,3.2,node"])
    with pytest.raises(UserError, match=r"another sweep called 'theirs'; give --name"):
        read(store, file)
    assert rows() == before


def test_a_control_that_no_run_is_is_refused(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "runs.csv", ["mhar,4,0,3.1,node", "additive,1,0,3.2,node"])
    for control, told in (
        ({"model.residual": "additve"}, "residual=additve: no run has this value; did you mean 'additive'?"),
        (CONTROL | {"model.routing_heads": "4"}, "additive,model.routing_heads=4: no run has all of these"),
    ):
        with pytest.raises(UserError, match=re.escape(told)):
            read(store, file, control=control)


def test_another_control_than_before_is_refused(store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "runs.csv", ["mhar,1,0,3.1,node", "additive,1,0,3.2,node"])
    read(store, file, control={})
    with pytest.raises(UserError, match="already, with no --control; 'headcount delete theirs', and import"):
        read(store, file)
    with store.write() as session:
        delete_sweep(session, session.scalars(select(Sweep.id)).one(), by="me")
    assert read(store, file).controls == 1


def test_a_row_an_evaluation_reports_the_mean_of_the_last_quarter(store: Store, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    curve = {seed: rng.normal(3.5, 0.1, 41) for seed in range(2)}
    rows = [
        {"config": {"heads": 4}, "seed": seed, "step": 100 * i, "val": loss}
        for seed, losses in curve.items()
        for i, loss in enumerate(losses.tolist())
    ]
    rows += [{"config": {"heads": 4}, "seed": 2, "step": 100 * i, "val": 3.0} for i in range(20)]
    rows += [
        {"config": {"heads": 4}, "seed": 3, "step": 100 * i, "val": 3.0 if i < 7 else float("nan")}
        for i in range(41)
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    found = read(store, file, {"model.routing_heads": "config.heads", "loss": "val"}, {})
    assert (found.jobs, found.incomplete, found.diverged) == (4, 1, 1)
    with store.read() as session:
        means = dict(session.execute(select(Job.seed, Job.tail_mean)).all())
        states = dict(session.execute(select(Job.seed, Job.state)).all())
    assert means == {
        0: pytest.approx(curve[0][-11:].mean()),
        1: pytest.approx(curve[1][-11:].mean()),
        2: None,
        3: None,
    }
    assert states == {0: "finished", 1: "finished", 2: "cancelled", 3: "diverged"}
    with store.read() as session:
        [row] = ablation_table(session, "theirs").rows
    assert (row.note, row.seeds_missing, row.seeds_diverged) == ("1 of 4 diverged", (2,), (3,))
    assert check_store(store) == []


def test_runs_without_seeds_are_never_paired(store: Store, tmp_path: Path) -> None:
    rows = [f"{m},{h},{loss}" for (m, h, _), loss in LOSSES.items()]
    read(store, write(tmp_path / "runs.csv", rows, "method,H,val_loss"))
    with store.read() as session:
        table = ablation_table(session, "theirs")
    treatment = table.rows[2]
    assert (treatment.n, treatment.seeds, treatment.seeds_missing) == (3, (8, 9, 10), ())
    assert treatment.delta is not None
    assert treatment.delta.reason == "no seed has both a treatment and a control"
    comparison = paired_statistics(table).comparisons[1]
    reference = stats.ttest_ind([3.44, 3.47, 3.46], [3.50, 3.52, 3.54], equal_var=False)
    assert comparison.unpaired is not None
    assert comparison.unpaired.p == pytest.approx(reference.pvalue)


def test_parquet_is_read_as_csv_is(store: Store, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    file = a_row_a_run(tmp_path / "runs.csv")
    pandas.read_csv(file).to_parquet(tmp_path / "runs.parquet")
    read(store, file)
    found = read(store, tmp_path / "runs.parquet", name="parquet")
    assert (found.cells, found.jobs) == (3, 9)
    with store.read() as session:
        one, two = ablation_table(session, "theirs"), ablation_table(session, "parquet")
    assert [(r.settings, r.losses) for r in one.rows] == [(r.settings, r.losses) for r in two.rows]


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """For what is refused before a store is asked."""
    opened = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["mhar,4,0,abc,n"], "line 2: loss 'abc' is not a number"),
        (["mhar,4,0,,n"], "line 2: no loss (column 'val_loss')"),
        (["mhar,4,x,3,n"], "line 2: seed 'x' is not a number"),
        (["mhar,4,0.5,3,n"], "line 2: seed '0.5' is not a whole number of 0 or more"),
        (["mhar,,0,3,n"], "line 2: no value of model.routing_heads (column 'H')"),
        (["mhar,four,0,3,n"], "line 2: model.routing_heads: got 'four'; expected a whole number"),
        (["mhar,4,0,3,n", "mhar,4,0,3.1,n"], "line 3: the same run as line 2"),
        (["mhar,4,0,3"], "runs.csv:2: 4 values where 5 columns are named"),
        (['mhar,4,0,"3,n'], "runs.csv:2: unexpected end of data"),
        ([], "runs.csv has no rows"),
    ],
)
def test_a_bad_row_is_named_and_nothing_is_imported(
    sqlite_store: Store, tmp_path: Path, rows: list[str], message: str
) -> None:
    file = write(tmp_path / "runs.csv", rows)
    with pytest.raises(UserError) as caught:
        read(sqlite_store, file)
    assert message in str(caught.value)
    with sqlite_store.read() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0


def test_controls_without_an_axis_are_told_how_they_are_named(sqlite_store: Store, tmp_path: Path) -> None:
    file = write(tmp_path / "runs.csv", ["mhar,4,0,3.5,n", "additive,,0,3.6,n"])
    with pytest.raises(UserError) as caught:
        read(sqlite_store, file, control={})
    assert str(caught.value).splitlines()[1:] == [
        "  line 3: no value of model.routing_heads (column 'H'); only runs that --control names may lack one"
    ]


def test_every_bad_row_is_named_at_once(sqlite_store: Store, tmp_path: Path) -> None:
    good = [f"mhar,4,{seed},3.5,n" for seed in range(3)]
    file = write(tmp_path / "runs.csv", [*good, "mhar,4,1,3.5,n", *["mhar,4,9,x,n"] * 30])
    with pytest.raises(UserError) as caught:
        read(sqlite_store, file)
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("runs.csv: 31 rows cannot be imported, so none is")
    assert lines[1].strip() == "line 5: the same run as line 3"
    assert lines[-1].strip() == "and 11 more"


@pytest.mark.parametrize(
    ("mapping", "control", "message"),
    [
        (
            {"model.routing_heads": "HH", "loss": "val_loss"},
            {},
            "the file has no such column; did you mean 'H'",
        ),
        ({"model.routing_head": "H", "loss": "val_loss"}, {}, "did you mean 'model.routing_heads'?"),
        ({"model.routing_heads": "H"}, {}, "no column is the loss; name it, as in --map loss=val_loss"),
        ({"loss": "val_loss"}, {}, "no column is an axis"),
        (MAP, {"model.kv_heads": "4"}, "--control model.kv_heads: not an axis of these runs"),
        ({"model/heads": "H", "loss": "val_loss"}, {}, "an axis is named by letters"),
    ],
)
def test_a_bad_map_is_refused(
    sqlite_store: Store, tmp_path: Path, mapping: dict[str, str], control: dict[str, str], message: str
) -> None:
    with pytest.raises(UserError) as caught:
        read(sqlite_store, a_row_a_run(tmp_path / "runs.csv"), mapping, control)
    assert message in str(caught.value)


def test_imported_jobs_are_never_queued(store: Store, tmp_path: Path) -> None:
    rows = ["mhar,4,0,10,3.5", "mhar,4,0,20,3.5", "mhar,4,1,10,3.5"]
    mapping = {**MAP, "step": "at"}
    read(store, write(tmp_path / "runs.csv", rows, "method,H,seed,at,val_loss"), mapping, control={})
    with store.write() as session:
        requeue(session, list(session.scalars(select(Job.id).where(Job.state == "cancelled"))))
    with store.read() as session:
        assert sorted(session.scalars(select(Job.state))) == ["cancelled", "finished"]
        assert set(session.scalars(select(SweepJob.wanted))) == {False}

"""The named tables against the ablation table and numpy, in every form."""

import csv
import io
import json

import numpy as np
import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from scipy import stats
from sqlalchemy import text
from sqlalchemy.orm import Session
from statsmodels.stats.multitest import multipletests

from headcount.api.columns import readable_named
from headcount.api.formats import render_named
from headcount.api.results import (
    TABLES,
    AblationTable,
    NamedTable,
    QueryError,
    ScalingLaw,
    ablation_table,
    named_table,
    paired_statistics,
)
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Attempt

RATES = (1e-4, 1e-3, 1e-2)

OF_THE_SWEEP = [name for name in TABLES if name not in ("scaling", "width", "alignment")]
"""The tables that the sweep here can answer: the others need several computes, widths or streams."""


@pytest.fixture
def table(session: Session) -> AblationTable:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1, 2), rates=RATES, seeds=range(4))
    return ablation_table(session, "head-count")


def test_every_row_of_every_table_tells_where_it_is_from(table: AblationTable) -> None:
    for name in OF_THE_SWEEP:
        found = named_table(table, name)
        assert (found.name, found.sweep, found.version) == (name, "head-count", 7)
        assert {tuple(row) for row in found.rows} == {found.columns}
        n = "fewest_seeds" if name in ("grid", "shape") else "n"  # their cells are many to a row
        assert {
            n,
            "seeds",
            "seeds_missing",
            "parameters",
            "flops_per_token",
            "tokens_per_second",
        } <= set(found.columns)


def test_heads_has_the_family_of_the_statistics(table: AblationTable) -> None:
    found = named_table(table, "heads")
    comparisons = {c.cell: c for c in paired_statistics(table).comparisons}
    assert (len(found.rows), found.size) == (18, 18)
    for record in found.rows:
        assert record["adjusted_p"] == comparisons[record["cell"]].adjusted_p
        assert record["loss"] == table.row(record["cell"]).mean
        assert record["heads_are_kv_heads"] == (record["model.routing_heads"] == record["model.kv_heads"])


def test_best_against_best_pairs_each_side_at_its_own_rate(table: AblationTable) -> None:
    found = named_table(table, "best_lr")
    p_values = []
    for record in found.rows:
        mine = [
            r
            for r in table.treatments
            if all(r.settings[a] == record[a] for a in ("model.routing_heads", "model.kv_heads"))
        ]
        theirs = [r for r in table.controls if r.settings["model.kv_heads"] == record["model.kv_heads"]]
        one, two = (min(rows, key=lambda r: r.mean or 9) for rows in (mine, theirs))
        reference = stats.ttest_rel(one.losses, two.losses)
        assert (record["best_rate"], record["control_rate"]) == (1e-3, 1e-3)
        assert record["delta"] == pytest.approx(np.subtract(one.losses, two.losses).mean())
        assert record["p"] == pytest.approx(reference.pvalue)
        assert (record["rates"], record["control_rates"], record["at_edge"]) == (3, 3, False)
        # chosen on seeds 0 and 2, reported on 1 and 3
        assert record["split_seeds"] == (1, 3)
        assert record["split_delta"] == pytest.approx(np.subtract(one.losses, two.losses)[[1, 3]].mean())
        p_values.append(record["p"])
    assert [r["adjusted_p"] for r in found.rows] == pytest.approx(multipletests(p_values, method="holm")[1])


def test_seeds_and_throughput_are_the_stores_numbers(session: Session, table: AblationTable) -> None:
    for record in named_table(table, "seeds").rows:
        row = table.row(record["cell"])
        assert tuple(record[f"loss_{seed}"] for seed in range(4)) == row.losses
        assert row.delta is not None
        assert tuple(record[f"delta_{seed}"] for seed in range(4)) == row.delta.deltas
    session.execute(
        text(
            "UPDATE measurement SET value = 50000"
            " WHERE job_id IN (SELECT id FROM job WHERE parameters = 1000000)"
        )
    )
    session.execute(text("INSERT INTO measurement SELECT id, 'peak_memory_bytes', 1000 + seed FROM job"))
    for record in named_table(ablation_table(session, "head-count"), "throughput").rows:
        treated = record["role"] == "treatment"
        assert record["relative_to_control"] == (2.0 if treated else None)
        assert (record["tokens_per_second"], record["peak_memory_bytes"]) == (1e5 if treated else 5e4, 1003)
        # 400 steps of 1,024 tokens and 67 evaluations of 64 windows of 128 tokens, a third each
        assert record["flops_per_token"] == pytest.approx(2.5e12 / (400 * 1024 + 41 * 64 * 128 / 3), rel=1e-9)


def test_pairs_in_mixed_environments_are_marked(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,))
    assert not any(r.mixed_environments for r in ablation_table(session, "head-count").rows)
    row = ablation_table(session, "head-count").treatments[0]
    other = session.execute(
        text(
            "SELECT w.job_id FROM sweep_job w JOIN job j ON j.id = w.job_id WHERE cell_id = :c AND seed = 1"
        ),
        {"c": row.cell},
    ).scalar_one()
    session.query(Attempt).filter(Attempt.job_id == other).update({"environment": {"device": "cuda"}})
    assert [r.mixed_environments for r in ablation_table(session, "head-count").treatments] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("form", ["json", "csv", "md", "tex"])
@pytest.mark.parametrize("name", OF_THE_SWEEP)
def test_every_form_has_every_row(table: AblationTable, name: str, form: str) -> None:
    found = named_table(table, name)
    written = render_named(found, form)
    if form == "csv":
        rows = list(csv.DictReader(io.StringIO(written)))
        assert len(rows) == len(found.rows)
        assert all((row["test"], row["version"]) == (found.test, "7") for row in rows)
    elif form == "json":
        assert [tuple(r) for r in json.loads(written)["rows"]] == [found.columns] * len(found.rows)
    else:
        separator = " & " if form == "tex" else " | "
        columns = len(readable_named(found).headings)
        assert sum(line.count(separator) == columns - 1 for line in written.splitlines()) >= len(found.rows)


def test_people_are_shown_what_tells_something() -> None:
    """No number of a cell, and no warning that holds for none; a False that is an answer stays."""
    columns = ("model.kv_heads", "u_shaped", "loss", "parameters", "bytes", "entropies")
    warnings = ("mixed_environments", "external", "seeds_missing", "seeds_failed", "cell")
    row = dict(zip(columns, (4, False, 3.25, 1_080_000_000, 3.49e9, (0.5, 1.23456)), strict=True))
    rows = [row | dict(zip(warnings, (mixed, False, (), None, 1), strict=True)) for mixed in (False, True)]
    shape = ("shape", "Is it a U?", "s", 3, "tail mean", "none", None, None, None)
    alike = readable_named(NamedTable(*shape, columns + warnings, (rows[0],)))
    assert alike.headings == ("kv heads", "u shaped", "loss", "parameters", "bytes", "entropies")
    assert alike.rows == (("4", "no", "3.25", "1.08B", "3.49G", "0.5 1.2346"),)
    warned = readable_named(NamedTable(*shape, columns + warnings, tuple(rows)))
    assert warned.headings == (*alike.headings, "mixed environments")
    assert [row[-1] for row in warned.rows] == ["no", "yes"]


def test_what_a_sweep_cannot_answer_is_said(session: Session) -> None:
    build_sweep(session, kv_heads=(1,))
    table = ablation_table(session, "head-count")
    with pytest.raises(QueryError, match=r"no table is called 'best-lr'; did you mean 'best_lr'"):
        named_table(table, "best-lr")
    bare = AblationTable(
        **{**vars(table), "axes": {"model.routing_heads": table.axes["model.routing_heads"]}}
    )
    with pytest.raises(QueryError, match=r"does not vary train\.peak_lr"):
        named_table(bare, "lr")


def test_rest_answers_by_suffix_and_header(store: Store, client: TestClient) -> None:
    with store.write() as session:
        build_sweep(session, heads=(1, 2, 4), kv_heads=(1, 2), rates=RATES, curves=False)
    with store.read() as session:
        found = named_table(ablation_table(session, "head-count"), "best_lr")
    address = "/api/v1/sweeps/head-count/tables/best_lr"
    suffixed = client.get(f"{address}.csv")
    assert suffixed.text == render_named(found, "csv")
    assert client.get(address, headers={"Accept": "text/csv"}).text == suffixed.text
    assert client.get(address).json() == json.loads(render_named(found, "json"))
    again = client.get(f"{address}.csv", headers={"If-None-Match": suffixed.headers["ETag"]})
    assert again.status_code == 304
    assert client.get("/api/v1/sweeps/head-count/tables/bestlr").json()["detail"].endswith("'best_lr'?")


def test_main_tells_gains_by_the_law_that_was_asked_for(table: AblationTable) -> None:
    assert "gain" not in named_table(table, "main").columns
    found = named_table(table, "main", ScalingLaw(0.05, 1.7))
    assert (found.law, found.size, len(found.rows)) == (ScalingLaw(0.05, 1.7), 18, len(table.rows))
    for record in found.rows:
        row = table.row(record["cell"])
        if row.control is None:
            assert record["gain"] is None
            continue
        control = table.row(row.control).mean
        assert control is not None
        assert row.delta is not None
        assert row.delta.mean is not None
        assert row.delta.low is not None
        assert record["gain"] == pytest.approx(((control - 1.7) / (control + row.delta.mean - 1.7)) ** 20)
        assert record["gain_high"] == pytest.approx(((control - 1.7) / (control + row.delta.low - 1.7)) ** 20)
    assert "gain in compute for α = 0.05, E = 1.7, assumed" in render_named(found, "md")
    with pytest.raises(QueryError, match="a scaling law needs an exponent above 0"):
        named_table(table, "main", ScalingLaw(-1.0, 0.0))
    steep = named_table(table, "main", ScalingLaw(1e-9, 3.0))
    assert {record["gain"] for record in steep.rows} == {None, 0.0, float("inf")}
    assert "Infinity" not in render_named(steep, "json")

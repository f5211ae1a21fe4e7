"""The scaling table, over a sweep whose controls follow a law and whose treatments save compute."""

from dataclasses import replace

import pytest
from builders import build_sweep
from rich.console import Console
from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, QueryError, ablation_table, named_table
from headcount.api.results.scaling import scaling
from headcount.api.scaling_command import show_scaling

COMPUTES = {1: 1e17, 2: 3e17, 4: 1e18, 8: 3e18, 16: 1e19}
"""By the number of KV heads, which stands for the scale here."""


def law(compute: float) -> float:
    return 1.7 + 1.5 * (compute / 1e18) ** -0.15


@pytest.fixture
def table(session: Session) -> AblationTable:
    """Treatments at C have the controls' loss at 1.3 C, at 0.8 of their speed."""
    build_sweep(session, heads=(1, 4, 8), kv_heads=tuple(COMPUTES), seeds=range(3), curves=False)
    found = ablation_table(session, "head-count")
    rows = []
    for row in found.rows:
        compute = COMPUTES[row.settings["model.kv_heads"]]
        loss = law(compute if row.is_control else 1.3 * compute)
        losses = tuple(loss + 1e-4 * (seed - 1) for seed in row.seeds)
        speed = 1e5 if row.is_control else 0.8e5
        rows.append(
            replace(
                row, flops=compute, flops_per_token=6e8, tokens_per_second=speed, losses=losses, mean=loss
            )
        )
    return replace(found, rows=tuple(rows))


def test_gains_are_those_of_the_law(table: AblationTable) -> None:
    found = named_table(table, "scaling")
    assert "200 resamples" in found.estimator
    assert len(found.rows) == len(table.rows)
    for record in found.rows:
        assert record["law_E"] == pytest.approx(1.7, abs=0.02)
        assert record["law_loss"] == pytest.approx(law(record["flops"]), abs=1e-3)
        assert record["seconds"] == pytest.approx(record["flops"] / 6e8 / record["tokens_per_second"])
        if record["role"] == "control":
            assert record["gain"] is record["time_gain"] is None
            continue
        assert record["gain"] == pytest.approx(1.3, rel=0.01)
        assert record["gain_low"] < 1.3 < record["gain_high"]
        assert record["time_gain"] == pytest.approx(1.3 * 0.8, rel=0.01)
        assert record["gain_extrapolated"] == (record["flops"] == 1e19)


def test_a_control_with_a_diverged_seed_is_not_fitted(table: AblationTable) -> None:
    wild = [
        replace(row, mean=None, losses=(9.0,)) if row.is_control and row.flops == 1e17 else row
        for row in table.rows
    ]
    for record in named_table(replace(table, rows=tuple(wild)), "scaling").rows:
        assert record["law_loss"] == pytest.approx(law(record["flops"]), abs=5e-3)


def test_without_speeds_there_is_no_time_and_without_computes_no_law(table: AblationTable) -> None:
    silent = replace(table, rows=tuple(replace(row, tokens_per_second=None) for row in table.rows))
    for record in named_table(silent, "scaling").rows:
        assert record["seconds"] is record["time_gain"] is None
    rows = [replace(row, tokens_per_second=(row.flops or 0) / (1 + row.cell / 1e4)) for row in table.rows]
    found = scaling(replace(table, rows=tuple(rows)))  # all take nearly as long
    assert found.by_time is None
    assert [words for words in found.warnings if words.startswith("no law of time")]
    alike = replace(table, rows=tuple(replace(row, flops=1e18) for row in table.rows))
    with pytest.raises(QueryError, match=r"needs 4 different computes .* the runs have 1; vary model\.scale"):
        named_table(alike, "scaling")


def test_equal_steps_equal_flops_and_equal_time_are_three_comparisons(table: AblationTable) -> None:
    """The treatments save 30 % of the compute, and take 1.25 times as long for it."""
    found = scaling(table)
    assert found.by_time is not None
    for worth in found.cells:
        assert worth.at_equal_time is not None
        if worth.row.is_control:
            assert worth.at_equal_flops.mean == pytest.approx(0, abs=1e-3)
            assert worth.gain is None
            continue
        assert worth.at_equal_steps == worth.row.delta
        saved = law(1.3 * worth.flops) - law(worth.flops)
        assert worth.at_equal_flops.mean == pytest.approx(saved, abs=2e-3)
        in_time = law(1.3 * worth.flops) - law(1.25 * worth.flops)
        assert worth.at_equal_time.mean == pytest.approx(in_time, abs=2e-3)
        assert worth.at_equal_flops.low <= worth.at_equal_flops.mean <= worth.at_equal_flops.high
    [warning] = [words for words in found.warnings if "extrapolated" in words]
    assert warning.startswith("3 of 15 gains are extrapolated")


def test_runs_without_a_floor_are_warned_of(table: AblationTable) -> None:
    rows = []
    for row in table.rows:
        loss = 3.0 * ((row.flops or 0.0) / 1e18) ** -0.2
        rows.append(replace(row, losses=tuple(loss for _ in row.seeds), mean=loss))
    found = scaling(replace(table, rows=tuple(rows)))
    assert [words for words in found.warnings if words.startswith("the runs show no floor")]
    assert found.by_compute.law.exponent == pytest.approx(0.2, abs=1e-3)


def test_the_command_shows_the_law_the_comparisons_and_what_they_cannot_carry(table: AblationTable) -> None:
    console = Console(record=True, width=200, highlight=False)
    slow = replace(table, rows=tuple(replace(row, tokens_per_second=None) for row in table.rows))
    show_scaling(scaling(slow), console)
    text = console.export_text()
    assert "L = 1.7" in text
    assert "15 runs" in text
    gains = [line for line in text.splitlines() if "routing_heads=4 kv_heads=1 " in line]
    assert len(gains) == 1
    assert " 1.30 [1." in gains[0]
    assert "Warning: no law of time" in text

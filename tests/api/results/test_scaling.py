"""The scaling table, over a sweep whose controls follow a law and whose treatments save compute."""

from dataclasses import replace

import pytest
from builders import build_sweep
from sqlalchemy.orm import Session

from headcount.api.results import AblationTable, QueryError, ablation_table, named_table

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
    alike = replace(table, rows=tuple(replace(row, flops=1e18) for row in table.rows))
    with pytest.raises(QueryError, match=r"needs 4 different computes .* the runs have 1; vary model\.scale"):
        named_table(alike, "scaling")

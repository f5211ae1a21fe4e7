"""Published and closed-form examples as sweeps: each is written into a store, and its tables read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from raw_sweep import RawCell, write_sweep
from rich.console import Console
from scipy import stats
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import (
    AblationTable,
    ScalingLaw,
    ablation_table,
    free_table,
    named_table,
    paired_statistics,
)
from headcount.api.results.scaling import scaling
from headcount.api.scaling_command import show_scaling
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Sweep
from headcount.sweeps.statistics.chinchilla import ChinchillaLaw

HEADS = "model.routing_heads"
LEVELS = (1, 2, 4, 8, 16, 32)
CURVE = (
    (3.606, 3.523, 3.475, 3.462, 3.495, 3.563),
    (3.596, 3.519, 3.465, 3.458, 3.487, 3.557),
    (3.600, 3.518, 3.470, 3.460, 3.487, 3.559),
)
"""By seed."""
SLEEP = (
    (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0),
    (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4),
)
BEFORE = (1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30)
AFTER = (0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29)
RECORD = (3.27676, 3.27770, 3.27869, 3.27831, 3.27789, 3.27830, 3.27757, 3.27857)
BH_1995 = (
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
    *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
)


@pytest.fixture
def session() -> Iterator[Session]:
    store = open_store("sqlite://")
    with Session(store.engine) as opened:
        yield opened
    store.close()


def table_of(
    session: Session, treatments: Mapping[int, Sequence[float]], control: Sequence[float], **analysis: Any
) -> AblationTable:
    """A sweep over the routing heads, with one control, each a loss a seed."""
    cells = [RawCell({}, dict(enumerate(control)))]
    cells += [RawCell({HEADS: h}, dict(enumerate(losses)), 0) for h, losses in treatments.items()]
    write_sweep(session, "example", {HEADS: list(treatments)}, cells)
    session.scalars(select(Sweep)).one().analysis = analysis
    session.flush()
    return ablation_table(session, "example")


def one_pair(session: Session, treatment: Sequence[float], control: Sequence[float]) -> dict[str, Any]:
    """The only row of `tests`."""
    [record] = named_table(table_of(session, {1: treatment}, control), "tests").rows
    return record


def test_student_sleep(session: Session) -> None:
    record = one_pair(session, *SLEEP)
    assert record["delta"] == pytest.approx(-1.58, abs=1e-12)
    assert (record["t"], record["df"]) == (pytest.approx(-4.0621277, abs=5e-8), 9)
    assert record["p"] == pytest.approx(0.0028328902, abs=5e-11)
    assert [record["low"], record["high"]] == pytest.approx([-2.4598858, -0.7001142], abs=5e-8)
    assert record["effect_size"] == pytest.approx(-1.28456, abs=5e-6)
    assert record["correlation"] == pytest.approx(0.795170, abs=5e-7)
    found = paired_statistics(ablation_table(session, "example"))
    assert found.pooling.components is not None
    assert found.pooling.components.f == pytest.approx(16.500881, abs=5e-7)
    assert found.pooling.components.seed_variance == pytest.approx(2.848333, abs=5e-7)
    assert found.pooling.components.residual_variance == pytest.approx(0.756444, abs=5e-7)
    assert found.resolution.outperforming_seeds == 29


def test_depression_scores_by_signed_ranks(session: Session) -> None:
    record = one_pair(session, BEFORE, AFTER)
    assert (record["signed_rank"], record["rank_floor"]) == (40, 2 / 2**9)
    assert record["signed_rank_p"] == pytest.approx(0.0390625, abs=5e-11)
    [comparison] = paired_statistics(ablation_table(session, "example")).comparisons
    assert comparison.signed_rank is not None
    assert comparison.signed_rank.p_higher == pytest.approx(0.01953125, abs=5e-12)


@pytest.mark.parametrize(("n", "floor"), [(3, 0.25), (4, 0.125), (5, 0.0625), (6, 0.03125)])
def test_the_floor_stands_beside_every_rank_test(session: Session, n: int, floor: float) -> None:
    record = one_pair(session, [3.0 - i / 1000 for i in range(n)], [3.5] * n)
    assert record["sign_flip_p"] == record["signed_rank_p"] == record["rank_floor"] == floor
    assert record["outperforming"] == 1


def test_a_record_of_eight_seeds_against_its_bar(session: Session) -> None:
    record = one_pair(session, RECORD, [3.28] * 8)
    row = ablation_table(session, "example").treatments[0]
    assert row.mean == pytest.approx(3.27797375, abs=5e-9)
    assert row.sd == pytest.approx(0.00063315, abs=5e-9)
    assert -record["delta"] * 8**0.5 == pytest.approx(0.0057311, abs=5e-8)
    assert record["p"] / 2 == pytest.approx(2.05e-5, abs=5e-8)


def test_three_deltas(session: Session) -> None:
    record = one_pair(session, [3.488, 3.491, 3.485], [3.5] * 3)
    assert record["t"] == pytest.approx(-6.9282, abs=5e-5)
    assert record["p"] == pytest.approx(0.0202041, abs=5e-8)
    assert [record["low"], record["high"]] == pytest.approx([-0.0194524, -0.0045476], abs=5e-8)


def test_the_1995_family(session: Session) -> None:
    """Deltas m − 1, m and m + 1 have t = m√3 on 2 degrees of freedom, and so the p that is asked for."""
    middles = [float(stats.t.isf(p / 2, 2)) / 3**0.5 for p in BH_1995]
    losses = {h: [m - 1, m, m + 1] for h, m in enumerate(middles, 1)}
    rows = named_table(table_of(session, losses, [0.0] * 3), "tests").rows
    assert [row["p"] for row in rows] == pytest.approx(BH_1995, rel=1e-6)
    assert [row["adjusted_p"] for row in rows[:4]] == pytest.approx([0.0015, 0.0056, 0.0247, 0.114], rel=1e-6)
    assert [row["bh_p"] for row in rows[:5]] == pytest.approx(
        [0.0015, 0.003, 0.0095, 0.035625, 0.0603], rel=1e-6
    )
    counts = {
        name: sum(row[name] <= 0.05 for row in rows)
        for name in ("bh_p", "adjusted_p", "by_p", "simultaneous_p")
    }
    assert counts == {"bh_p": 4, "adjusted_p": 3, "by_p": 3, "simultaneous_p": 3}  # the last is Bonferroni's


def test_the_interquartile_mean(session: Session) -> None:
    values = {1: (5, 8, 4, 38, 8, 6, 9, 7, 7, 3, 1, 6), 2: range(1, 9), 4: (3, 9)}
    table_of(session, {h: [float(x) for x in losses] for h, losses in values.items()}, [0.0])
    found = free_table(session, "example", rows=[HEADS], statistics=("iqm",))
    assert {row[HEADS]: row["iqm loss"] for row in found.rows if row[HEADS]} == {1: 6.5, 2: 4.5, 4: 6}


def test_the_gain_in_compute(session: Session) -> None:
    table = table_of(session, {1: [3.48, 3.48]}, [3.50, 3.50])

    def gain(irreducible: float) -> float:
        return float(named_table(table, "main", ScalingLaw(0.05, irreducible)).rows[1]["gain"])

    assert (gain(1.7), gain(2.0)) == (pytest.approx(1.25040, abs=5e-6), pytest.approx(1.30795, abs=5e-6))


def curve(session: Session, control: int) -> AblationTable:
    """The synthetic U, every level paired with that of `control`."""
    by_level = {h: [seed[i] for seed in CURVE] for i, h in enumerate(LEVELS)}
    return table_of(
        session, by_level, by_level[control], axis=HEADS, ends=[1, 32], middle=[8], flat_margin=0.005
    )


def test_the_curve_against_eight_heads(session: Session) -> None:
    table = curve(session, 8)
    rows = {row[HEADS]: row for row in named_table(table, "tests").rows}
    assert [row.mean for row in table.treatments] == pytest.approx(
        [3.600667, 3.52, 3.47, 3.46, 3.489667, 3.559667], abs=5e-7
    )
    sixteen = rows[16]
    assert sixteen["delta"] == pytest.approx(0.0296667, abs=5e-8)
    assert sixteen["se"] * 3**0.5 == pytest.approx(0.00305505, abs=5e-9)
    assert (sixteen["t"], sixteen["df"]) == (pytest.approx(16.81942, abs=5e-6), 2)
    assert sixteen["p"] == pytest.approx(0.00351627, abs=5e-9)
    assert rows[8]["delta"] == rows[8]["low"] == rows[8]["high"] == 0


def test_the_shape_of_the_curve(session: Session) -> None:
    table = curve(session, 1)
    [record] = named_table(table, "shape").rows
    assert record["rise_1_p"] == pytest.approx(7.86e-5, abs=5e-8)
    assert record["rise_32_p"] == pytest.approx(2.24e-5, abs=5e-8)
    assert (record["p"], record["u_shaped"], record["middle"]) == (record["rise_1_p"], True, (8.0,))
    assert record["minimum"] == pytest.approx(6.6270, abs=5e-5)
    assert record["minimum_low"] == pytest.approx(2**2.708936, rel=5e-7)
    assert record["minimum_high"] == pytest.approx(2**2.748080, rel=5e-7)
    assert record["curvature"] * 56 == pytest.approx((1.079 + 1.067 + 1.070) / 3, abs=1e-12)
    assert record["friedman"] == pytest.approx(15.0, abs=1e-12)
    assert record["friedman_p"] == pytest.approx(0.01036234, abs=5e-9)
    assert record["flat_p"] > 0.9
    [shape] = paired_statistics(table).shapes
    assert shape.curvature is not None
    assert shape.curvature.p is not None
    assert shape.curvature.p / 2 == pytest.approx(5.66e-6, abs=5e-9)
    assert shape.shape is not None
    assert [end.rises for end in shape.shape.ends] == [
        pytest.approx((0.144, 0.138, 0.140)),
        pytest.approx((0.101, 0.099, 0.099)),
    ]


def test_two_lines_are_broken_below_the_middle(session: Session) -> None:
    by_level = {h: [seed[i] for seed in CURVE] for i, h in enumerate(LEVELS)}
    table = table_of(session, by_level, by_level[1], axis=HEADS, ends=[1, 32], middle=[4, 8])
    [shape] = paired_statistics(table).shapes
    assert shape.lines is not None
    assert (shape.lines.left.slope, shape.lines.right.slope) == (
        pytest.approx(-0.0653333, abs=5e-8),
        pytest.approx(0.0498333, abs=5e-8),
    )
    assert 2 * shape.lines.left.p == pytest.approx(2.6e-7, abs=5e-9)  # printed two-sided
    assert 2 * shape.lines.right.p == pytest.approx(9.8e-6, abs=5e-8)


def test_the_pooled_error_of_the_curve(session: Session) -> None:
    """Without the control, which repeats a level here, the cells are those of the example."""
    by_level = {h: [seed[i] for seed in CURVE] for i, h in enumerate(LEVELS)}
    others = {h: losses for h, losses in by_level.items() if h != 8}
    found = paired_statistics(table_of(session, others, by_level[8]))
    assert (found.pooling.sd, found.pooling.df) == (pytest.approx(0.00167332, abs=5e-9), 10)
    assert found.pooling.balanced


def test_controls_of_several_sizes_and_lengths_have_the_published_law(session: Session) -> None:
    """Losses are those of Hoffmann et al.; treatments have the controls' at 1.3 times their tokens."""
    table = table_of(session, {1: [3.0, 3.0, 3.0]}, [3.0, 3.0, 3.0])
    sizes, lengths = (4e7, 4e8, 4e9), (1e9, 1e10, 1e11)
    law = ChinchillaLaw(1.69, 406.4, 410.7, 0.34, 0.28)
    control, treatment = table.controls[0], table.treatments[0]
    rows = []
    for i, (size, tokens) in enumerate(product(sizes, lengths)):
        for row, saved in ((control, 1.0), (treatment, 1.3)):
            loss = law.loss(size, saved * tokens)
            losses = tuple(loss + 1e-4 * (seed - 1) for seed in row.seeds)
            own = {"cell": 2 * i + (saved > 1), "control": 2 * i if saved > 1 else None}
            cost = {"parameters": int(size), "tokens": int(tokens), "flops": 6 * size * tokens}
            rows.append(replace(row, losses=losses, mean=loss, **own, **cost))
    varied = replace(table, rows=tuple(rows))
    found = scaling(varied)
    assert found.by_size is not None
    assert found.by_size.law.loss(70e9, 1.4e12) == pytest.approx(1.936645, abs=1e-5)
    records = [r for r in named_table(varied, "scaling").rows if r["role"] == "treatment"]
    for record in records:
        assert record["token_gain"] == pytest.approx(1.3, rel=0.01)
        assert record["token_gain_low"] < 1.3 < record["token_gain_high"]
    assert [r["token_gain_extrapolated"] for r in records] == [False, False, True] * 3
    assert records[0]["size_term"] == pytest.approx(law.size_term(4e7), rel=0.01)
    assert records[0]["data_term"] == pytest.approx(law.data_term(1e9), rel=0.01)
    console = Console(record=True, width=220, highlight=False)
    show_scaling(found, console)
    text = console.export_text()
    assert "by size:    L = 1.69 + " in text
    assert "fitted from 4e+07 to 4e+09 parameters and 1e+09 to 1e+11 tokens" in text
    assert "token gain" in text

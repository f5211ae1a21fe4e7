"""The tests of a sweep: that each number is the statistics' own, within the family it is said to be in."""

from dataclasses import replace

import numpy as np
import pytest
from builders import CONTROL, build_sweep
from scipy import stats
from sqlalchemy.orm import Session
from statsmodels.stats.multitest import multipletests

from headcount.api.results import ablation_table, paired_statistics

HEADS = (1, 2, 4, 8, 16)


def test_the_family_is_named_and_counted(session: Session) -> None:
    build_sweep(session, heads=HEADS, states={(2, 1, 1e-3, 0): "diverged"})
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    assert found.family.name == "every cell of head-count against its control"
    assert (found.family.method, found.family.size, found.family.alpha) == ("holm", 15, 0.05)
    p = [c.delta.p if c.delta else 1.0 for c in found.comparisons]
    expected = multipletests(p, alpha=0.05, method="holm")
    for comparison, adjusted, rejected in zip(found.comparisons, expected[1], expected[0], strict=True):
        if comparison.delta is None:
            assert (comparison.adjusted_p, comparison.rejected) == (None, False)
            assert comparison.note == "1 of 3 diverged"
        else:
            assert comparison.adjusted_p == pytest.approx(adjusted)
            assert comparison.rejected == rejected
    assert sum(c.delta is None for c in found.comparisons) == 1


def test_the_pooled_error_is_that_of_a_block_design(session: Session) -> None:
    build_sweep(session, heads=HEADS, seeds=range(8))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    y = np.array([row.losses for row in table.rows])
    residuals = y - y.mean(1, keepdims=True) - y.mean(0) + y.mean()
    df = 17 * 7
    assert found.pooling.homogeneity is not None
    assert found.pooling.homogeneity.verdict == "homogeneous"
    assert (found.pooling.cells, found.pooling.df, found.pooling.balanced) == (18, df, True)
    assert found.pooling.sd == pytest.approx(np.sqrt((residuals**2).sum() / df))
    first = found.comparisons[0]
    assert first.pooled is not None
    assert first.delta is not None
    assert first.pooled.mean == pytest.approx(first.delta.mean)
    half = stats.t.ppf(0.975, df) * found.pooling.sd * np.sqrt(2 / 8)
    assert first.pooled.high == pytest.approx(first.pooled.mean + half)


def test_an_error_that_is_not_vouched_for_is_not_used(session: Session) -> None:
    build_sweep(session, heads=HEADS, seeds=(0, 1))
    found = paired_statistics(ablation_table(session, "head-count"))
    assert found.pooling.homogeneity is not None
    assert found.pooling.homogeneity.verdict != "homogeneous"
    assert {c.pooled for c in found.comparisons} == {None}


def test_each_line_is_a_u_by_its_ends_and_middle(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1, 2))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    assert found.axis == "model.routing_heads"
    assert [s.settings for s in found.shapes] == [
        {"model.kv_heads": kv, "train.peak_lr": 1e-3} for kv in (1, 2)
    ]
    losses = {
        r.settings["model.routing_heads"]: r for r in table.treatments if r.settings["model.kv_heads"] == 1
    }
    y = {heads: np.array(row.losses) for heads, row in losses.items()}
    shape = found.shapes[0].shape
    assert shape is not None
    assert [c.end for c in shape.ends] == [1, 16]
    for contrast in shape.ends:
        rises = y[int(contrast.end)] - (y[4] + y[8]) / 2
        assert contrast.rises == pytest.approx(tuple(rises))
        assert contrast.p == pytest.approx(stats.ttest_1samp(rises, 0, alternative="greater").pvalue)
    assert shape.p == max(c.p for c in shape.ends if c.p is not None)


def test_a_line_without_its_ends_has_no_shape(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1, 2), states={(16, 2, 1e-3, 0): "diverged"})
    first, second = paired_statistics(ablation_table(session, "head-count")).shapes
    assert (first.note, second.shape) == ("", None)
    assert second.note == "no losses, or a diverged seed, at 16"


def test_an_axis_of_names_has_no_u(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1,))
    table = ablation_table(session, "head-count")
    named = replace(table, axes=table.axes | {"model.routing_heads": ("few", "some", "many")})
    (line,) = paired_statistics(named).shapes
    assert (line.shape, line.note) == (None, "the values of the axis are not numbers")


def test_one_seed_has_no_test(session: Session) -> None:
    build_sweep(session, heads=HEADS, seeds=(0,))
    found = paired_statistics(ablation_table(session, "head-count"))
    assert {c.adjusted_p for c in found.comparisons} == {None}
    assert {s.note for s in found.shapes} == {"needs 2 seeds that have the ends and the middle"}
    assert (found.pooling.sd, found.pooling.df) == (None, 0)


def test_an_empty_sweep_has_a_family_of_its_cells(session: Session) -> None:
    build_sweep(
        session,
        kv_heads=(1,),
        seeds=(0,),
        states={(h, 1, 1e-3, 0): "queued" for h in (*HEADS, CONTROL)},
    )
    found = paired_statistics(ablation_table(session, "head-count"))
    assert (found.family.size, found.pooling.cells, found.pooling.homogeneity) == (5, 0, None)
    assert {c.rejected for c in found.comparisons} == {False}

"""The tests of a sweep: that each number is the statistics' own, within the family it is said to be in."""

from dataclasses import replace

import numpy as np
import pytest
from builders import CONTROL, build_sweep
from scipy import stats
from sqlalchemy.orm import Session
from statsmodels.stats.multitest import multipletests

from headcount.api.results import TableRow, ablation_table, paired_statistics
from headcount.sweeps.statistics import (
    best_cells,
    dunnett_deltas,
    moderated_deltas,
    pair_error,
    paired_delta,
    parabola,
    pooled_error,
    rule_regret,
    seeds_needed,
    sign_flip,
    simultaneous,
    smallest_difference,
    two_lines,
)

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

    spreads = np.sqrt((residuals**2).sum(1) * 18 / 17 / 7)
    wide = {
        row.cell
        for row, f in zip(table.rows, spreads**2 / found.pooling.sd**2, strict=True)
        if f > stats.f.ppf(0.95, 7, df)
    }
    sources = []
    for comparison in found.comparisons:
        delta, told = comparison.delta, comparison.simultaneous
        assert comparison.pooled is not None
        assert delta is not None
        assert delta.se is not None
        assert told is not None
        cells = [i for i, row in enumerate(table.rows) if row.cell in (comparison.cell, comparison.control)]
        own = max(np.sqrt((spreads[cells] ** 2).sum() / 8), delta.se)
        shared = found.pooling.sd * np.sqrt(2 / 8)
        assert comparison.pooled.se == pytest.approx(shared)
        if {comparison.cell, comparison.control} & wide:
            expected = ("own", delta.se, 7)
        else:
            expected = ("own_spread" if own > shared else "pooled", max(own, shared), df)
        assert (comparison.simultaneous_error, told.se, told.df) == (
            expected[0],
            pytest.approx(expected[1]),
            expected[2],
        )
        t = stats.t.ppf(1 - 0.05 / 15 / 2, told.df)
        assert told.high == pytest.approx(told.mean + t * told.se)
        sources.append(comparison.simultaneous_error)
    assert set(sources) == {"pooled", "own_spread"} | ({"own"} if wide else set())


@pytest.mark.parametrize(
    ("heads", "kv_heads", "error"), [(HEADS, (1, 2, 4), "moderated"), ((1, 2, 4), (4,), "own")]
)
def test_the_interval_for_all_at_once_rests_on_the_best_error_there_is(
    session: Session, heads: tuple[int, ...], kv_heads: tuple[int, ...], error: str
) -> None:
    build_sweep(session, heads=heads, kv_heads=kv_heads)
    found = paired_statistics(ablation_table(session, "head-count"))
    sources = set()
    for comparison in found.comparisons:
        shared = comparison.moderated if error == "moderated" else comparison.delta
        source, told = comparison.simultaneous_error, comparison.simultaneous
        assert shared is not None
        assert told is not None
        assert (told.mean, told.confidence) == (shared.mean, 0.95)
        if source == "own_spread":
            assert (told.se or 0) > (shared.se or 0)
            assert told.df == shared.df
        else:
            estimate = comparison.delta if source == "own" else shared
            assert estimate is not None
            assert told == simultaneous(estimate, found.family.size)
        sources.add(source)
    # the moderated ones hold where neither cell spreads wider than the others, or than the error
    assert sources == {error, *({"own_spread", "own"} if error == "moderated" else ())}


def test_spreads_that_look_uneven_leave_every_claim_to_its_own_error(session: Session) -> None:
    """Of 9 cells a third is four times as noisy: moderated is a second reading there, and no more."""
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1, 2, 4))
    table = ablation_table(session, "head-count")
    uneven = replace(table, rows=tuple(_noisier(row) for row in table.rows))
    found = paired_statistics(uneven)
    assert found.pooling.homogeneity is not None
    assert found.pooling.homogeneity.p is not None
    assert found.pooling.homogeneity.p <= 0.5
    for comparison in found.comparisons:
        assert comparison.moderated is not None
        assert comparison.simultaneous_error == "own"
        assert comparison.delta is not None
        assert comparison.simultaneous == simultaneous(comparison.delta, 9)


def _noisier(row: TableRow) -> TableRow:
    if row.settings.get("model.routing_heads") != 4 or row.mean is None:
        return row
    losses = {
        seed: row.mean + 4 * (loss - row.mean) for seed, loss in zip(row.seeds, row.losses, strict=True)
    }
    assert row.delta is not None
    control = {s: x - d for s, x, d in zip(row.seeds, row.losses, row.delta.deltas, strict=True)}
    return replace(row, losses=tuple(losses.values()), delta=paired_delta(losses, control))


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


def test_each_cell_has_every_reading_that_its_sweep_allows(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1, 2), seeds=range(8))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    deltas = np.array([c.delta.deltas for c in found.comparisons if c.delta])
    reference = moderated_deltas(deltas, [c.control for c in found.comparisons])
    assert tuple(c.moderated for c in found.comparisons) == reference.deltas
    assert (found.moderation.cells, found.moderation.prior_sd) == (10, reference.prior_sd)
    assert [(f.name, f.size, f.reason) for f in found.dunnett] == [
        (f"every cell paired with cell {row.cell}", 5, None) for row in table.controls
    ]
    rows = [table.controls[0], *(r for r in table.treatments if r.control == table.controls[0].cell)]
    y = np.array([r.losses for r in rows])
    pooled = pooled_error(y)
    mine = [c for c in found.comparisons if c.control == rows[0].cell]
    own = [max(pair_error(pooled, i + 1, 0), c.delta.se or 0) for i, c in enumerate(mine) if c.delta]
    assert max(own) > pooled.sd / 2 > min(own) / 2
    expected = dunnett_deltas(pooled, 0, least=own)
    assert tuple(c.dunnett for c in mine) == expected.deltas
    assert tuple(c.dunnett_p for c in mine) == expected.adjusted_p
    first = found.comparisons[0]
    assert first.delta is not None
    assert first.delta.se is not None
    assert (first.sign_flip_p, first.sign_flip_floor) == (sign_flip(first.delta.deltas), 2 / 2**8)
    assert first.smallest_difference == pytest.approx(smallest_difference(first.delta.se, 7, comparisons=10))


def test_a_few_cells_are_not_moderated_and_noisy_ones_not_pooled(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1,), seeds=(0, 1))
    found = paired_statistics(ablation_table(session, "head-count"))
    assert {c.moderated for c in found.comparisons} == {None}
    assert {c.dunnett_p for c in found.comparisons} == {None}
    assert [f.reason for f in found.dunnett] == ["the cells are not shown to have one variance"]


def test_the_best_set_and_the_rule_are_the_statistics_own(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1, 4))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    for kv, best, rule in zip((1, 4), found.best, found.rules, strict=True):
        rows = [r for r in table.treatments if r.settings["model.kv_heads"] == kv]
        y = np.array([r.losses for r in rows])
        expected = best_cells(y)
        assert (best.lowest, best.size) == (rows[expected.lowest].cell, 5)
        assert [(s.low, s.high, s.may_be_best) for s in best.standings] == [
            (s.low, s.high, s.may_be_best) for s in expected.standings
        ]
        at = HEADS.index(kv)
        regret = rule_regret(y, at)
        assert (rule.cell, rule.best) == (rows[at].cell, rows[regret.best].cell)
        assert (rule.regret, rule.low, rule.high) == (regret.mean, regret.low, regret.high)


def test_the_noise_and_what_it_hides(session: Session) -> None:
    build_sweep(session, heads=HEADS, kv_heads=(1, 2))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    sds = np.array([row.sd for row in table.controls])
    sd = np.sqrt((sds**2).mean())
    assert (found.noise.control_sd, found.noise.control_df) == (pytest.approx(sd), 4)
    assert found.noise.control_low == pytest.approx(sd * np.sqrt(4 / stats.chi2.ppf(0.975, 4)))
    assert found.noise.control_unbiased == pytest.approx(sd / 0.9400, rel=1e-4)  # c₄ of 5 values
    assert found.noise.residual_sd == found.pooling.sd
    assert (found.noise.repeated_sd, found.noise.repeated_jobs) == (None, 0)
    delta_sd = np.sqrt(np.mean([c.delta.sd**2 for c in found.comparisons if c.delta and c.delta.sd]))
    resolution = found.resolution
    assert (resolution.delta_sd, resolution.seeds, resolution.resolution) == (
        pytest.approx(delta_sd),
        3,
        0.005,
    )
    assert resolution.smallest_difference == pytest.approx(
        smallest_difference(delta_sd / 3**0.5, 2, comparisons=10)
    )
    assert resolution.seeds_needed == seeds_needed(0.005, delta_sd, comparisons=10)


def test_a_rate_chosen_on_the_seeds_that_report_it_says_so(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), rates=(1e-4, 1e-3, 1e-2))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    assert [(r.settings, r.is_control, r.choices) for r in found.rates] == [
        ({"model.kv_heads": 1}, True, 3),
        *(({"model.routing_heads": h, "model.kv_heads": 1}, False, 3) for h in (1, 2, 4)),
    ]
    for choice in found.rates:
        rows = [
            r
            for r in table.rows
            if r.is_control == choice.is_control and choice.settings.items() <= r.settings.items()
        ]
        best = min(rows, key=lambda r: r.mean or 9)
        assert (choice.cell, choice.rate, choice.at_edge) == (best.cell, 1e-3, False)
        se = np.sqrt(np.mean([(r.se or 0) ** 2 for r in rows]))
        assert choice.bias == pytest.approx(0.8463 * se, rel=1e-3)
    narrow = replace(table, axes=table.axes | {"train.peak_lr": (1e-3, 1e-2)})
    assert all(choice.at_edge for choice in paired_statistics(narrow).rates)


def test_the_lines_of_the_u_are_a_family_and_have_fitted_shapes(session: Session) -> None:
    build_sweep(session, heads=(1, 2, 4, 8, 16, 32), kv_heads=(1, 2))
    table = ablation_table(session, "head-count")
    found = paired_statistics(table)
    p = [s.shape.p for s in found.shapes if s.shape]
    expected = multipletests(p, alpha=0.05, method="holm")
    assert [s.adjusted_p for s in found.shapes] == pytest.approx(expected[1])
    assert [s.rejected for s in found.shapes] == expected[0].tolist()
    assert (found.shape_family.method, found.shape_family.size) == ("holm", 2)
    for line, kv in zip(found.shapes, (1, 2), strict=True):
        y = np.array([r.losses for r in table.treatments if r.settings["model.kv_heads"] == kv])
        assert line.parabola == parabola([1, 2, 4, 8, 16, 32], y)
        assert line.lines == two_lines([1, 2, 4, 8, 16, 32], y, last_left=4)
        assert line.parabola is not None
        assert line.parabola.low is not None
        assert line.parabola.high is not None
        assert line.parabola.low < 8 < line.parabola.high

"""The tables `width` and `alignment` against sums over the losses that were written."""

import numpy as np
import pytest
from raw_sweep import MOMENT, RawCell, write_sweep
from scipy import stats
from sqlalchemy.orm import Session
from statsmodels.stats.multitest import multipletests

from headcount.api.results import QueryError, ablation_table, named_table
from headcount.orchestrator.store.models import Attempt

WIDTHS = (256, 512, 1024)


def losses(rng: np.random.Generator, level: float, seeds: range = range(4)) -> dict[int, float]:
    return {seed: level + float(rng.normal(0, 0.01)) for seed in seeds}


def test_width_compares_the_delta_at_each_width_with_that_at_the_narrowest(session: Session) -> None:
    rng = np.random.default_rng(1)
    cells = [RawCell({"model.d_model": width}, losses(rng, 3.5 - i / 10)) for i, width in enumerate(WIDTHS)]
    cells += [
        RawCell(
            {"model.d_model": width, "model.routing_heads": heads},
            losses(rng, 3.45 - i / 12, range(1, 4) if width == 1024 else range(4)),
            i,
        )
        for heads in (1, 4)
        for i, width in reversed(list(enumerate(WIDTHS)))
    ]
    write_sweep(session, "wide", {"model.d_model": WIDTHS, "model.routing_heads": (1, 4)}, cells)
    found = named_table(ablation_table(session, "wide"), "width")
    assert [(r["model.routing_heads"], r["model.d_model"]) for r in found.rows] == [
        (heads, width) for heads in (1, 4) for width in WIDTHS
    ]
    by_setting = {tuple(cell.settings.values()): cell for cell in cells}
    p_values = []
    for record in found.rows:
        width, heads = record["model.d_model"], record["model.routing_heads"]
        own = _delta(by_setting[width, heads], by_setting[width,])
        assert record["delta"] == pytest.approx(np.mean(list(own.values())), abs=1e-12)
        if width == WIDTHS[0]:
            assert (record["change_mean"], record["change_adjusted_p"]) == (None, None)
            continue
        narrow = _delta(by_setting[WIDTHS[0], heads], by_setting[WIDTHS[0],])
        change = [own[seed] - narrow[seed] for seed in sorted(own.keys() & narrow.keys())]
        expected = stats.ttest_1samp(change, 0)
        assert record["change_pairs"] == len(change) == (3 if width == 1024 else 4)
        assert record["change_mean"] == pytest.approx(np.mean(change), abs=1e-12)
        assert record["change_p"] == pytest.approx(expected.pvalue, rel=1e-9)
        assert [record["change_low"], record["change_high"]] == pytest.approx(expected.confidence_interval())
        p_values.append(expected.pvalue)
    adjusted = [r["change_adjusted_p"] for r in found.rows if r["change_mean"] is not None]
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-9)
    assert (found.size, found.family) == (
        4,
        "the delta at every width of wide against that at the narrowest, Holm",
    )


def _delta(treatment: RawCell, control: RawCell) -> dict[int, float]:
    return {seed: loss - control.losses[seed] for seed, loss in treatment.losses.items()}


def test_alignment_sets_aligned_heads_against_slices_at_equal_settings(session: Session) -> None:
    rng = np.random.default_rng(2)
    axes = {"model.residual": ("mhar", "mhar_hw"), "model.routing_heads": (1, 4), "model.kv_heads": (4,)}
    cells = [RawCell({"model.residual": "additive", "model.kv_heads": 4}, losses(rng, 3.5))]
    for residual in axes["model.residual"]:
        for heads in (1, 4):
            setting = {"model.residual": residual, "model.routing_heads": heads, "model.kv_heads": 4}
            cells.append(RawCell(setting, losses(rng, 3.4), 0))
    write_sweep(session, "aligned", axes, cells)
    found = named_table(ablation_table(session, "aligned"), "alignment")
    p_values = []
    for record, sliced, aligned in zip(found.rows, cells[1:3], cells[3:], strict=True):
        expected = stats.ttest_rel(list(aligned.losses.values()), list(sliced.losses.values()))
        assert record["model.routing_heads"] == aligned.settings["model.routing_heads"]
        assert record["heads_are_kv_heads"] == (record["model.routing_heads"] == 4)
        assert record["sliced_loss"] == pytest.approx(np.mean(list(sliced.losses.values())))
        assert record["loss"] == pytest.approx(np.mean(list(aligned.losses.values())))
        assert record["delta"] == pytest.approx(record["loss"] - record["sliced_loss"], abs=1e-12)
        assert record["p"] == pytest.approx(expected.pvalue, rel=1e-9)
        p_values.append(expected.pvalue)
    adjusted = [record["adjusted_p"] for record in found.rows]
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-9)


def test_a_sweep_that_cannot_tell_says_what_it_lacks(session: Session) -> None:
    write_sweep(session, "plain", {"train.peak_lr": (1e-3,)}, [RawCell({"train.peak_lr": 1e-3}, {0: 3.5})])
    table = ablation_table(session, "plain")
    with pytest.raises(QueryError, match=r"'plain' does not vary model\.d_model"):
        named_table(table, "width")
    with pytest.raises(QueryError, match=r"'plain' does not vary model\.residual"):
        named_table(table, "alignment")


def test_alignment_is_mixed_where_either_side_trained_elsewhere_than_their_control(session: Session) -> None:
    even = dict.fromkeys(range(2), 3.5)
    cells = [
        cell
        for first, kv_heads in ((0, 1), (3, 2))
        for cell in (
            RawCell({"model.kv_heads": kv_heads}, even),
            RawCell({"model.kv_heads": kv_heads, "model.residual": "mhar"}, even, first),
            RawCell({"model.kv_heads": kv_heads, "model.residual": "mhar_hw"}, even, first),
        )
    ]
    ids = write_sweep(
        session, "apart", {"model.residual": ("mhar", "mhar_hw"), "model.kv_heads": (1, 2)}, cells
    )
    for cell, of_cell in enumerate(ids):
        for job in of_cell.values():
            told = {"device": "another" if cell == 4 else "one"}
            shared = {"epoch": 1, "slot": "s", "started": MOMENT, "ended": MOMENT, "cause": "finished"}
            session.add(Attempt(job_id=job, number=1, start_step=0, environment=told, **shared))
    session.flush()
    found = named_table(ablation_table(session, "apart"), "alignment").rows
    assert {row["model.kv_heads"]: row["mixed_environments"] for row in found} == {1: False, 2: True}

import pytest
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table, paired_statistics
from headcount.dashboard import text
from headcount.dashboard.exports.marks import marks_of
from headcount.dashboard.figures import forest
from headcount.dashboard.figures.bars import bars
from headcount.dashboard.pages.sweep import sweep_page


def test_the_rows_are_the_comparisons_lowest_first(session: Session) -> None:
    table = ablation_table(session, "head-count")
    statistics = paired_statistics(table)
    data = forest.forest_data(
        table.treatments, statistics, bars(table, statistics, "delta"), ["train.peak_lr"]
    )
    compared = {text.settings(c.settings, ["train.peak_lr"]): c for c in statistics.comparisons}
    assert [row.mean for row in data.rows] == sorted(row.mean for row in data.rows)
    assert (data.cells, data.absent) == (15, [])
    for row in data.rows:
        told = compared[row.name]
        assert told.delta is not None
        assert row == (
            row.name,
            told.delta.mean,
            told.delta.low,
            told.delta.high,
            told.delta.n,
            told.delta.p,
            told.adjusted_p,
            told.rejected,
        )


def test_the_figure_fills_what_the_family_tells_from_0(session: Session) -> None:
    (figure,) = sweep_page(session, "head-count", {"tab": "paired"}).figures
    (trace,) = figure.drawn["data"]
    filled = [symbol == "square" for symbol in trace["marker"]["symbol"]]
    assert filled == [float(row[6].lstrip("<")) <= 0.05 for row in figure.table.rows]
    assert any(filled)
    assert "filled: the delta is told from 0 by Holm's p over 15 comparisons (level 0.05)" in figure.caption


def test_what_has_no_delta_is_named_and_not_drawn(session: Session) -> None:
    (figure,) = sweep_page(session, "in-flight", {"tab": "paired", "train.peak_lr": "1e-3"}).figures
    assert "Not drawn: H\u00a01 · KV\u00a04 (no seed has both a treatment and a control); " in figure.caption
    assert "; H\u00a016 · KV\u00a01 (1 of 3 diverged)" in figure.caption
    assert len(figure.table.rows) == 13


def test_very_many_cells_are_capped_and_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest, "MOST_ROWS", 4)
    (figure,) = sweep_page(session, "head-count", {"tab": "paired"}).figures
    assert "showing the lowest 4 of 15 cells" in figure.caption
    assert len(figure.table.rows) == len(figure.drawn["data"][0]["x"]) == 4


def test_without_a_pair_it_says_so(session: Session) -> None:
    (figure,) = sweep_page(session, "waiting", {"tab": "paired"}).figures
    assert figure.summary == "Delta of every cell to its control. No pair has a result yet."
    assert figure.drawn["layout"]["annotations"][0]["text"].startswith("No result yet<br>")


def test_a_row_of_one_pair_has_no_bar_and_keeps_its_place() -> None:
    def row(name: str, mean: float, half: float | None) -> forest.ForestRow:
        ends = (None, None) if half is None else (mean - half, mean + half)
        return forest.ForestRow(name, mean, *ends, 1 if half is None else 3, None, None, False)

    rows = [row("H 8", -0.05, 0.01), row("H 4", -0.04, None), row("H 2", -0.01, 0.02)]
    drawn = forest.forest_figure(forest.ForestData(rows, "t", 3, []))
    assert [(list(trace["y"]), "error_x" in trace) for trace in drawn["data"]] == [
        (["H 8", "H 2"], True),
        (["H 4"], False),
    ]
    assert drawn["layout"]["yaxis"]["categoryarray"] == ["H 8", "H 4", "H 2"]
    assert marks_of(drawn).y.categories == ["H 8", "H 4", "H 2"]

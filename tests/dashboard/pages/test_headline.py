from dataclasses import replace

import pytest
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table, sweep_view
from headcount.api.results.significance import PairedStatistics, paired_statistics
from headcount.dashboard import text
from headcount.dashboard.html import sweep_html
from headcount.dashboard.pages.headline import Headline, headline
from headcount.dashboard.pages.sweep import sweep_page


def of(session: Session, name: str) -> tuple[Headline, PairedStatistics]:
    table = ablation_table(session, name)
    statistics = paired_statistics(table)
    return headline(sweep_view(session, name), table, statistics), statistics


def test_an_edited_analysis_is_called_exploratory(session: Session) -> None:
    table = ablation_table(session, "head-count")
    statistics = paired_statistics(table)
    edited = replace(sweep_view(session, "head-count"), exploratory=True)
    badges = headline(edited, table, statistics).badges
    assert badges[0] == "exploratory: the analysis was edited after submission"
    assert badges[1:] == of(session, "head-count")[0].badges


def test_the_best_cell_with_its_own_numbers(session: Session) -> None:
    made, statistics = of(session, "head-count")
    best = next(
        c
        for c in statistics.comparisons
        if c.settings["model.routing_heads"] == 8 and c.settings["model.kv_heads"] == 4
    )
    assert best.simultaneous is not None
    assert made.lead == "H\u00a08 · KV\u00a04"
    assert made.rest == (
        f" has the lowest loss: {text.signed(best.simultaneous.mean)}\u00a0"
        f"{text.interval(best.simultaneous.low, best.simultaneous.high)} against the control, "
        "3\u00a0paired\u00a0seeds."
    )
    test, rivals, shape = made.more
    assert test == (
        "The 95 % interval holds for 15 comparisons at once, so also for the one picked as the lowest; it "
        "rests on its own error, steadied by that of all cells. The cell differs from its control: "
        f"{text.p_equals(best.simultaneous.p)}, corrected likewise."
    )
    standings = next(b for b in statistics.best if b.settings["model.kv_heads"] == 4).standings
    assert [s.may_be_best for s in standings] == [False, False, False, True, False]
    assert rivals == "Every other cell of its line is worse, all 5 compared at once."
    line = next(s for s in statistics.shapes if s.settings["model.kv_heads"] == 4)
    assert line.shape is not None
    assert line.shape.u_shaped
    assert shape == (
        "A U is supported at KV\u00a04: H 1 and 16 against H 4 and 8, "
        f"{text.p_equals(line.shape.p)} (the larger of the ends)."
    )
    assert made.badges == ("n = 3: under 5 seeds",)


def test_a_lower_cell_of_fewer_seeds_is_told_of_and_not_named(session: Session) -> None:
    table = ablation_table(session, "head-count")
    statistics = paired_statistics(table)
    whole, first = headline(sweep_view(session, "head-count"), table, statistics), table.treatments[0]
    assert first.mean is not None
    rows = tuple(replace(r, mean=r.mean - 9, n=1) if r is first and r.mean else r for r in table.rows)
    made = headline(sweep_view(session, "head-count"), replace(table, rows=rows), statistics)
    assert made.lead == whole.lead
    assert made.rest == whole.rest.replace("lowest loss", "lowest loss of those with the most seeds")
    assert made.more == ("1 cell of fewer seeds is lower still.", *whole.more)


def test_cells_that_may_be_the_best_as_well_are_named(session: Session) -> None:
    made, statistics = of(session, "in-flight")
    assert made.lead == "H\u00a08 · KV\u00a04 · LR\u00a05e-4"
    settings = {"model.kv_heads": 4, "train.peak_lr": 5e-4}
    line = next(found for found in statistics.best if found.settings == settings)
    assert [s.may_be_best for s in line.standings] == [False, False, True, True, False]
    assert made.more[2] == "Not separable from it: H\u00a04 (5 cells of its line compared at once)."


def test_what_is_amiss_is_a_badge(session: Session) -> None:
    made, _ = of(session, "in-flight")
    assert made.badges == (
        "n = 3: under 5 seeds",
        "1 job diverged",
        "1 job failed",
        "4 of 108 jobs without a result yet",
        "some cells have fewer seeds than planned",
        "its learning rate is at the edge of the grid",
    )


def test_cancelled_jobs_are_a_badge(session: Session) -> None:
    made, statistics = of(session, "head-count")
    states = {**sweep_view(session, "head-count").states, "cancelled": 2}
    sweep = replace(sweep_view(session, "head-count"), states=states)
    badges = headline(sweep, ablation_table(session, "head-count"), statistics).badges
    assert badges == (*made.badges, "2 jobs cancelled")


def test_a_rate_chosen_on_the_seeds_that_report_it_is_a_badge(session: Session) -> None:
    table = ablation_table(session, "in-flight")
    statistics = paired_statistics(table)
    rates = tuple(replace(choice, at_edge=False, bias=0.00123) for choice in statistics.rates)
    made = headline(sweep_view(session, "in-flight"), table, replace(statistics, rates=rates))
    assert made.badges[-1] == "learning rate chosen on the same seeds: up to 0.0012 too low on average"


def test_the_paired_table_says_what_it_could_have_seen(session: Session) -> None:
    page = sweep_page(session, "head-count", {"tab": "paired"})
    told, html = page.statistics.resolution, sweep_html(page)
    assert told.smallest_difference is not None
    assert (
        f"3 seeds would find a true delta of {text.number(told.smallest_difference)} with 80 % probability; "
        f"0.005 takes {told.seeds_needed} seeds."
    ) in html
    for comparison in page.statistics.comparisons:
        assert comparison.delta is not None
        assert f'<td class="number">{text.number(comparison.delta.correlation, 2)}</td>' in html


def test_before_the_first_result(session: Session) -> None:
    made, _ = of(session, "waiting")
    assert (made.lead, made.rest, made.more) == (
        "No result yet",
        ": 8 jobs, 1 running, 7 queued.",
        (),
    )


def test_when_all_have_ended_without_a_mean(session: Session) -> None:
    sweep, table = sweep_view(session, "waiting"), ablation_table(session, "waiting")
    states = {"diverged": 6, "failed": 0, "cancelled": 0, "finished": 2}
    ended = replace(sweep, settled=8, states=states)
    made = headline(ended, table, paired_statistics(table))
    assert (made.lead, made.rest) == ("No cell has a mean", ": of 8 jobs 6 diverged, 2 finished.")


@pytest.mark.parametrize("name", ["head-count", "in-flight"])
def test_the_cell_of_the_headline_has_the_most_seeds(session: Session, name: str) -> None:
    table = ablation_table(session, name)
    made, _ = of(session, name)
    most = max(row.n for row in table.treatments)
    lowest = min(
        (row for row in table.treatments if row.n == most and row.mean), key=lambda row: row.mean or 0
    )
    assert made.lead.startswith(f"H\u00a0{lowest.settings['model.routing_heads']} ")

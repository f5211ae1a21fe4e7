"""Each tab draws the results' own numbers, and says what it leaves out."""

import html
import re
from pathlib import Path

import plotly.graph_objects as go
import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table, jobs, named_table, paired_statistics
from headcount.api.results.best_rates import best_rate_records
from headcount.api.results.cell_curves import cell_curves, delta_curve
from headcount.api.results.curves import best_cell
from headcount.dashboard import text
from headcount.dashboard.chapters import chapters
from headcount.dashboard.figures import speed
from headcount.dashboard.pages.sweep import SweepPage, sweep_page
from headcount.dashboard.report import report
from headcount.dashboard.tabs import FIGURES, curves
from headcount.dashboard.tabs.view import nothing_kept
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Job, Measurement


def test_rates_stand_across_and_heads_make_the_lines(session: Session) -> None:
    page = sweep_page(session, "in-flight", {"tab": "rates", "y": "loss", "model.kv_heads": "2"})
    figure, _ = page.figures
    assert figure.title == "Loss by peak learning rate"
    rows = {
        (f"H\u00a0{row.settings['model.routing_heads']}", text.setting(row.settings["train.peak_lr"])): row
        for row in page.table.treatments
        if row.settings["model.kv_heads"] == 2
    }
    shown = {(name, rate): (mean, n) for name, rate, mean, _, _, n in figure.table.rows}
    assert shown == {key: (text.number(row.mean), str(row.n)) for key, row in rows.items()}


def test_published_curves_are_drawn_where_they_are_asked_for(session: Session) -> None:
    figure = sweep_page(session, "head-count", {"y": "loss", "reference": "paper"}).figures[0]
    dashed = [t for t in figure.drawn["data"] if t.get("meta") == "published"]
    assert [t["name"] for t in dashed] == [f"paper: KV\u00a0{kv}" for kv in (1, 2, 4)]
    assert "dashed: published at 1b, FineWeb-Edu, 20000 steps, each moved by a constant" in figure.caption
    plain = sweep_page(session, "head-count", {"y": "loss"}).figures[0]
    assert not [t for t in plain.drawn["data"] if t.get("meta") == "published"]


def test_a_sweep_of_one_rate_has_no_tab_of_rates(session: Session, client: TestClient) -> None:
    page = sweep_page(session, "head-count", {})
    assert [tab.label for tab in page.tabs] == [
        "Heads",
        "Grid",
        "Paired",
        "Curves",
        "Depth",
        "Speed",
        "Jobs",
        "Timeline",
        "Plan",
    ]
    answer = client.get("/sweeps/head-count?tab=rates")
    assert answer.status_code == 422
    assert "This page has no tab &#39;rates&#39;" in answer.text


def test_curves_are_of_the_chosen_cells_and_their_control(session: Session) -> None:
    page = sweep_page(session, "head-count", {"tab": "curves", "y": "loss", "model.kv_heads": "4"})
    cells = [r for r in page.table.rows if r.settings["model.kv_heads"] == 4]
    found = cell_curves(session, "head-count", [row.cell for row in cells])
    expected = {
        (text.cell_name(r.settings, r.is_control, page.choice.fixed), f"{step:,}"): text.number(mean)
        for r in cells
        for step, mean in zip(found[r.cell].steps, found[r.cell].mean, strict=True)
    }
    assert table_of(page) == expected
    assert any(name == "control" for name, _ in expected)


def test_delta_curves_are_paired_with_the_control(session: Session) -> None:
    page = sweep_page(session, "head-count", {"tab": "curves", "y": "delta", "model.kv_heads": "4"})
    best = page.table.row(best_cell(page.table.treatments) or 0)
    assert best.control is not None
    found = cell_curves(session, "head-count", [best.cell, best.control])
    delta = delta_curve(found[best.cell], found[best.control])
    name = text.cell_name(best.settings, False, page.choice.fixed)
    shown = {step: mean for (cell, step), mean in table_of(page).items() if cell == name}
    assert shown == {f"{s:,}": text.signed(m) for s, m in zip(delta.steps, delta.mean, strict=True)}


def table_of(page: SweepPage) -> dict[tuple[str, str], str]:
    """Cell and step to the mean that the figure's table shows."""
    (figure,) = page.figures
    return {(cell, step): mean for cell, step, mean, _ in figure.table.rows}


def test_many_curves_are_capped_and_counted(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(curves, "MOST_CURVES", 2)
    (figure,) = sweep_page(session, "head-count", {"tab": "curves", "y": "delta"}).figures
    assert "showing 2 of 5 cells" in figure.caption
    assert len({row[0] for row in figure.table.rows}) == 2


def test_what_has_not_begun_is_named(session: Session) -> None:
    (figure,) = sweep_page(session, "waiting", {"tab": "curves"}).figures
    assert "Not drawn: H\u00a01, H\u00a02, H\u00a04 (nothing to draw yet)" in figure.caption
    (figure,) = sweep_page(session, "waiting", {"tab": "speed"}).figures
    assert figure.summary.startswith("Tokens a second by cell. Fastest: control · KV\u00a01 with ")


def test_a_figure_of_speed_without_a_job_says_so() -> None:
    nothing = speed.SpeedData([], 0)
    assert speed.speed_summary(nothing) == "Tokens a second by cell. No job has trained yet."
    assert speed.speed_figure(nothing)["layout"]["annotations"][0]["text"].startswith("No result yet<br>")


def test_speed_is_that_of_the_throughput_table(session: Session) -> None:
    (figure,) = sweep_page(session, "head-count", {"tab": "speed"}).figures
    told = named_table(ablation_table(session, "head-count"), "throughput").rows
    assert sorted(row[1] for row in figure.table.rows) == sorted(
        f"{r['tokens_per_second']:,.0f}" for r in told
    )
    relative = [f"{r['relative_to_control']:.3f}" for r in told if r["relative_to_control"]]
    assert sorted(row[2] for row in figure.table.rows if row[2] != text.NOTHING) == sorted(relative)


def test_what_jobs_told_of_their_mfu_stands_beside_their_speed(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, "small", heads=(1, 4, 8), kv_heads=(1,), seeds=(0, 1), curves=False)
        for job in session.scalars(select(Job).where(Job.config["model.residual"].as_string() == "mhar")):
            session.add(Measurement(job_id=job.id, name="mfu", value=0.3 + 0.1 * job.seed))
    with store.read() as session:
        (figure,) = sweep_page(session, "small", {"tab": "speed"}).figures
    store.close()
    at = figure.table.columns.index("MFU")
    assert {(row[0] == "control", row[at]) for row in figure.table.rows} == {
        (True, "—"),
        (False, "35.0 %"),
    }


def test_every_job_is_listed_with_its_page(session: Session, client: TestClient) -> None:
    shown = re.findall(r'<a href="/jobs/(\w+)"><code>', client.get("/sweeps/in-flight?tab=jobs").text)
    assert shown == [job.id for job in jobs(session, "in-flight", limit=1000).jobs]


@pytest.mark.parametrize("tab", ["rates", "curves", "speed", "jobs", "timeline", "plan"])
def test_the_files_that_a_tab_offers_are_there(tab: str, client: TestClient) -> None:
    page = client.get(f"/sweeps/in-flight?tab={tab}", follow_redirects=True)
    links = re.findall(r'href="(/api/v1/sweeps/[^"]+)"', page.text)
    assert links
    for link in links:
        assert client.get(html.unescape(link)).status_code == 200, link


def test_an_address_keeps_its_tab(client: TestClient) -> None:
    moved = client.get("/sweeps/in-flight?tab=curves")
    assert moved.status_code == 307
    assert moved.headers["location"] == "?tab=curves&y=delta&model.kv_heads=4&train.peak_lr=5e-4&smooth=0"
    assert client.get("/sweeps/in-flight?tab=jobs").status_code == 200
    assert client.get("/sweeps/in-flight?tab=jobs&y=loss").status_code == 422


def test_every_figure_is_one_of_plotlys(session: Session) -> None:
    """The layouts are written as plain values: plotly in Python, which knows every attribute, takes them."""
    table = ablation_table(session, "in-flight")
    found = list(chapters(session, table, paired_statistics(table), nothing_kept))
    assert {chapter.name for chapter in found if chapter.figures} == set(FIGURES)
    for chapter in found:
        for figure in (*chapter.figures, *(one for side in chapter.further for one in side.figures)):
            go.Figure(figure.drawn)


def test_the_report_has_the_figures_of_every_tab(session: Session) -> None:
    written = report(session, "in-flight")
    for name in ("heads-delta", "heads-loss", "rates-delta", "curves-delta", "speed"):
        assert f'id="{name}-json"' in written


def test_jobs_say_why_they_ended(session: Session, client: TestClient) -> None:
    page = client.get("/sweeps/in-flight?tab=jobs").text
    listed = {re.search(r"<code>(\w+)", row)[1]: row for row in page.split("<tr>")[2:]}  # type: ignore[index]
    states = {job.id[:12]: job.state for job in jobs(session, "in-flight", limit=1000).jobs}
    failed, diverged, running, queued = (
        next(listed[job] for job, state in states.items() if state == name)
        for name in ("failed", "diverged", "running", "queued")
    )
    assert 'title="ValueError: no text">user error: the job itself cannot be trained as it is' in failed
    assert "diverged: its loss left every bound" in diverged
    assert '<td class="number">1</td>' in running
    assert ">waits</a>" in queued


def test_best_stands_against_best_with_its_edges_marked(session: Session) -> None:
    query = {"tab": "rates", "y": "loss", "model.kv_heads": "2"}
    curve, best = sweep_page(session, "in-flight", query).figures
    table = ablation_table(session, "in-flight")
    records, _ = best_rate_records(table)
    shown = [record for record in records if record["model.kv_heads"] == 2]
    names = {
        f"H\u00a0{r['model.routing_heads']}: {text.setting(r['best_rate'])}† against "
        f"{text.setting(r['control_rate'])}†": text.signed(r["delta"])
        for r in shown
    }
    assert {row[0]: row[1] for row in best.table.rows} == names  # both of two rates are ends
    rings = [trace for trace in curve.drawn["data"] if trace.get("meta") == "best at an edge"]
    assert [len(ring["x"]) for ring in rings] == [1] * 5
    assert sorted(y for ring in rings for y in ring["y"]) == sorted(r["loss"] for r in shown)


def test_the_share_of_the_peak_is_a_mean_over_jobs(session: Session) -> None:
    table = ablation_table(session, "head-count")
    known, *others = (row.cell for row in table.rows)
    data = speed.speed_data(table, (), {known: [0.4, 0.5]})
    assert sorted(row[-1] for row in speed.speed_table(data).rows) == [
        "45.0 %",
        *[text.NOTHING] * len(others),
    ]

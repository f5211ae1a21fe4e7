"""Every form of every figure: files that open, with the numbers of the page."""

import csv
import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from headcount.api.results import QueryError
from headcount.dashboard.exports.files import file_of
from headcount.dashboard.figure_command import figure as command
from headcount.dashboard.pages.sweep import figure_of, sweep_page
from headcount.orchestrator.store import Store

STARTS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF", "csv": b"series,", "tex": b"\\begin{figure}"}
VIEWS = [
    {"tab": "heads", "y": "loss"},
    {"tab": "paired"},
    {"tab": "curves", "y": "loss"},
    {"tab": "timeline"},
    {"tab": "depth"},
]


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view["tab"])
def test_every_figure_has_every_form(session: Session, view: dict[str, str]) -> None:
    for figure in sweep_page(session, "in-flight", view).figures:
        for form in ("svg", "csv", "tex", "table.tex"):
            content = file_of(figure, form)
            start = STARTS.get(form, b"\\begin{table}")
            assert content.startswith(start) or (form == "csv" and not content and view["tab"] == "depth")


def test_a_legend_is_read_row_by_row(session: Session) -> None:
    """Five lines in four columns: the fifth stands below the first, and is drawn right after it."""
    page = sweep_page(session, "head-count", {"tab": "curves", "y": "delta"})
    drawn = file_of(page.figures[0], "svg").decode()
    assert re.findall(r"<!-- (H\W\d+) -->", drawn) == [f"H\u00a0{heads}" for heads in (1, 16, 2, 4, 8)]


@pytest.mark.parametrize("form", ["png", "pdf"])
def test_a_map_is_drawn_for_print_and_twice_the_same(session: Session, form: str) -> None:
    figure = figure_of(sweep_page(session, "in-flight", {"tab": "grid"}), None)
    content = file_of(figure, form)
    assert content.startswith(STARTS[form])
    assert len(content) > 5000
    assert content == file_of(figure, form)


def test_the_csv_has_exactly_what_is_drawn(session: Session) -> None:
    page = sweep_page(session, "head-count", {"y": "delta", "bars": "t"})
    rows = list(csv.DictReader(io.StringIO(file_of(page.figures[0], "csv").decode())))
    means = {(r["series"], r["x"]): r for r in rows if not r["what"]}
    assert len(means) == len(page.table.treatments) == 15
    seeds = [r for r in rows if r["what"] == "one seed"]
    assert len(seeds) == 45
    for row in page.table.treatments:
        assert row.delta
        shown = means[f"KV\u00a0{row.settings['model.kv_heads']}", str(row.settings["model.routing_heads"])]
        assert float(shown["y"]) == row.delta.mean
        assert float(shown["y_low"]) == pytest.approx(row.delta.low)
        assert float(shown["y_high"]) == pytest.approx(row.delta.high)


def test_the_grid_as_numbers(session: Session) -> None:
    page = sweep_page(session, "head-count", {"tab": "grid", "y": "loss"})
    rows = list(csv.DictReader(io.StringIO(file_of(page.figures[0], "csv").decode())))
    cells = {(r["x"], r["y"]): float(r["value"]) for r in rows}
    assert cells == {
        (str(r.settings["model.routing_heads"]), str(r.settings["model.kv_heads"])): r.mean
        for r in page.table.treatments
    }


def test_the_drawing_as_pgfplots_is_balanced_and_plain(session: Session) -> None:
    """No LaTeX is here to run: braces close, environments end, and every character is plain."""
    for view in VIEWS:
        for figure in sweep_page(session, "in-flight", view).figures:
            for form in ("tex", "table.tex"):
                written = file_of(figure, form).decode()
                assert re.findall(r"\\begin{(\w+)}", written) == re.findall(r"\\end{(\w+)}", written)[::-1]
                bare = re.sub(r"\\[{}]", "", written)
                assert bare.count("{") == bare.count("}")
                assert written.isascii(), [c for c in written if not c.isascii()]


def test_the_points_of_a_line_in_latex(session: Session) -> None:
    page = sweep_page(session, "head-count", {"tab": "paired"})
    written = file_of(page.figures[0], "tex").decode()
    first = page.figures[0].drawn["data"][0]
    error = first["error_x"]
    point = f"({first['x'][0]:.7g},0) += ({error['array'][0]:.7g},0) -= ({error['arrayminus'][0]:.7g},0)"
    assert point in written
    assert "y dir=reverse" in written


def test_files_over_http_and_their_errors(client: TestClient) -> None:
    answer = client.get("/sweeps/head-count/figures/paired.csv?tab=paired&bars=t")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="head-count-paired.csv"'
    page = client.get("/sweeps/head-count?tab=paired&bars=t").text
    links = re.findall(r'href="(/sweeps/head-count/figures/[^"]+)"', page)
    assert [link.partition("?")[0].rpartition("/")[2] for link in links] == [
        "paired.pdf",
        "paired.csv",
        "paired.tex",
        "paired.table.tex",
    ]
    for link in links[1:]:
        assert client.get(link.replace("&amp;", "&")).status_code == 200
    wrong = client.get("/sweeps/head-count/figures/pared.csv?tab=paired")
    assert (wrong.status_code, "did you mean &#39;paired&#39;?" in wrong.text) == (422, True)
    assert client.get("/sweeps/head-count/figures/paired.doc?tab=paired").status_code == 422
    assert client.get("/sweeps/no/figures/paired.csv").status_code == 404


def test_the_command_writes_a_figure_of_a_view(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path))
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", str(store.engine.url))
    out = tmp_path / "figure.svg"
    run = CliRunner().invoke(
        command, ["head-count", "--view", "?tab=paired&bars=se", "--out", str(out)], catch_exceptions=False
    )
    assert run.output.startswith(f"{out}: Delta of every cell to its control. n up to 3")
    assert "± 1 standard error of the paired deltas" in run.output
    assert out.read_bytes().startswith(b"<?xml")
    other = CliRunner().invoke(command, ["head-count", "--name", "heads", "--out", str(out)])
    assert "did you mean 'heads-delta'?" in str(other.exception)
    other = CliRunner().invoke(command, ["head-count", "--out", str(tmp_path / "figure.gif")])
    assert "a figure is written as .svg, .png, .pdf, .csv, .tex, .table.tex" in str(other.exception)


def test_a_tab_without_a_figure_says_so(session: Session) -> None:
    with pytest.raises(QueryError, match="the tab 'jobs' of 'head-count' has no figure"):
        figure_of(sweep_page(session, "head-count", {"tab": "jobs"}), None)

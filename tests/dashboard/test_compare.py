"""Sweeps and cells side by side."""

import re

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table
from headcount.api.results.compare import differences
from headcount.dashboard import text
from headcount.dashboard.pages import compare_sweeps
from headcount.dashboard.pages.compare import Asked
from headcount.dashboard.pages.compare_sweeps import sweeps_page

TWO = "sweep=head-count&sweep=in-flight"


def page(client: TestClient, query: str) -> str:
    answer = client.get(f"/compare?{query}")
    assert answer.status_code == 200, answer.text
    return answer.text


def test_the_address_is_completed(client: TestClient) -> None:
    answer = client.get(f"/compare?{TWO}")
    assert answer.status_code == 307
    assert answer.headers["location"] == f"?{TWO}&y=delta&train.peak_lr=best"
    assert client.get("/compare").headers["location"] == "?y=delta"


def test_the_curves_of_two_sweeps_share_a_scale(session: Session) -> None:
    made = sweeps_page(session, Asked(("head-count", "in-flight"), (), None, {}))
    assert [figure.id for figure in made.figures] == ["curve-0", "curve-1"]
    ranges = [figure.drawn["layout"]["yaxis"]["range"] for figure in made.figures]
    assert ranges[0] == ranges[1]
    low, high = ranges[0]
    for figure in made.figures:
        drawn = [value for trace in figure.drawn["data"] for value in trace["y"] if value is not None]
        assert low < min(drawn)
        assert max(drawn) < high
    assert "Shown at LR\u00a05e-4" in made.figures[1].caption
    chosen = sweeps_page(session, Asked(("head-count", "in-flight"), (), None, {"train.peak_lr": "1e-3"}))
    assert "Shown at LR\u00a01e-3" in chosen.figures[1].caption
    assert {cell.settings["train.peak_lr"] for cell in chosen.cells} == {1e-3}
    assert chosen.found < made.found


def test_every_setting_has_its_losses_and_their_difference(client: TestClient, session: Session) -> None:
    html = page(client, f"{TWO}&y=delta&train.peak_lr=1e-3")
    a, b = (ablation_table(session, name) for name in ("head-count", "in-flight"))
    wanted = {"model.routing_heads": 2, "model.kv_heads": 1, "train.peak_lr": 1e-3}
    rows = [next(row for row in table.treatments if row.settings == wanted) for table in (a, b)]
    found = differences(rows)[1]
    assert found is not None
    line = next(tr for tr in html.split("<tr") if ">H\u00a02 · KV\u00a01 · LR\u00a01e-3</th>" in tr)
    assert re.findall(r'<td class="number">(.*?)</td>', line) == [
        text.number(rows[0].mean),
        "3",
        text.signed(rows[0].delta.mean if rows[0].delta else None),
        text.number(rows[1].mean),
        "3",
        text.signed(rows[1].delta.mean if rows[1].delta else None),
        text.signed(found.mean),
        text.interval(found.low, found.high),
        "none: 3 and 3",
        text.p_value(found.p),
    ]
    assert f"?cell={rows[0].cell}&amp;cell={rows[1].cell}&amp;y=loss" in line


def test_each_figure_leaves_as_a_file(client: TestClient) -> None:
    html = page(client, f"{TWO}&y=delta&train.peak_lr=best")
    links = re.findall(r'href="(/compare/figures/[^"]+)"', html)
    assert len(links) == 2 * 4
    for link in links:
        answer = client.get(link.replace("&amp;", "&"))
        assert answer.status_code == 200
        assert answer.headers["content-disposition"].startswith('attachment; filename="compare-curve-')


def test_cells_are_compared_with_the_first(client: TestClient, session: Session) -> None:
    table = ablation_table(session, "head-count")
    rows = table.treatments[:2]
    query = "&".join(f"cell={row.cell}" for row in rows)
    assert client.get(f"/compare?{query}").headers["location"] == f"?{query}&y=loss"
    found = differences(rows)[1]
    assert found is not None
    html = page(client, f"{query}&y=delta")
    assert f'<td class="number">{text.signed(found.mean)}</td>' in html
    assert text.interval(found.low, found.high) in html
    assert "Difference to H\u00a01" in html
    assert "Difference to the first, nats" in html
    fields = html.split("fields-title")[-1]
    assert "model.kv_heads" in fields
    assert "train.peak_lr" not in fields


def test_a_long_table_asks_for_a_value(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_sweeps, "MOST_LINES", 5)
    html = page(client, "sweep=in-flight&sweep=head-count&y=loss&train.peak_lr=best")
    assert "Showing 5 of 36 settings: choose a value of an axis for others." in html
    assert html.count(">curves<") + html.count("not in it") == 5


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("sweep=head-cont", 404, "did you mean &#39;head-count&#39;?"),
        ("cell=0", 404, "No cell has the id &#39;0&#39;"),
        ("cell=<b>", 404, "&lt;b&gt;"),
        (f"{TWO}&y=los", 422, "did you mean &#39;loss&#39;?"),
        (f"{TWO}&train.peak_lr=3", 422, "has no value"),
        (f"{TWO}&limt=3", 422, "This page knows no"),
        ("cell=1&x=2", 422, "This page knows no"),
        (f"{TWO}&cell=1", 422, "leave out one of the two"),
        ("&".join(f"cell={i}" for i in range(1, 11)), 422, "choose at most 8"),
        ("sweep=a&sweep=b&sweep=c&sweep=d&sweep=e", 422, "choose at most 4"),
    ],
)
def test_what_cannot_be_compared_is_told(client: TestClient, query: str, status: int, words: str) -> None:
    answer = client.get(f"/compare?{query}")
    assert (answer.status_code, words in answer.text) == (status, True)

"""Published figures beside ours: sign and order, with both recipes."""

import re

import pytest
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from headcount.api.results import ablation_table
from headcount.api.results.reference import KEPT, place_of, published_rows, published_table
from headcount.dashboard.pages.reference import COMPARED, reference_page

GRID = {"sweep": "head-count", "table": "grid_h_kv_100m_converged"}


def test_the_address_is_completed(client: TestClient) -> None:
    answer = client.get("/reference?sweep=head-count")
    assert answer.headers["location"] == "?sweep=head-count&table=grid_h_kv_100m_undertrained"
    assert client.get("/reference").headers["location"].startswith("?sweep=waiting&table=")


def test_each_published_row_stands_beside_our_cell(session: Session) -> None:
    page = reference_page(session, GRID)
    table = ablation_table(session, "head-count", with_reference=True)
    assert table.reference is not None
    rows = [row for row in published_rows() if row.table == GRID["table"]]
    assert [line.published for line in page.lines] == rows
    means = {row.cell: row.mean for row in table.rows}
    for line in page.lines:
        own = next(
            (
                row
                for row in table.treatments
                if row.settings["model.routing_heads"] == line.published.routing_heads
                and row.settings["model.kv_heads"] == line.published.kv_heads
            ),
            None,
        )
        assert line.ours == own
        if own:
            peers = [
                (other.loss, means[cell.cell])
                for other in rows
                for cell in table.treatments
                if other.kv_heads == line.published.kv_heads == cell.settings["model.kv_heads"]
                and other.routing_heads == cell.settings["model.routing_heads"]
                and cell.cell != own.cell
            ]
            told = [(theirs, ours) for theirs, ours in peers if theirs != line.published.loss]
            same = sum((theirs < line.published.loss) == (ours < own.mean) for theirs, ours in told)  # type: ignore[operator]
            assert line.order == ("same order" if same == len(told) else f"{same} of {len(told)} pairs")
            assert line.sign == "no delta to compare"
    assert (
        page.summary[0]
        == f"{sum(line.ours is not None for line in page.lines)} of 16 rows beside a cell of ours"
    )


def test_signs_are_told_where_both_have_a_delta(session: Session) -> None:
    """Published deltas at H = 1 are below 0; ours is lowest at H = 8 and above 0 at H = 1."""
    page = reference_page(session, GRID | {"table": "v1_main_loss"})
    one_head = [line for line in page.lines if line.published.routing_heads == 1 and line.ours]
    assert {(line.sign, line.differs) for line in one_head} == {("opposite sign", True)}
    more = [line for line in page.lines if line.published.routing_heads == 16 and line.ours]
    assert {line.sign for line in more} <= {"same sign"}


def test_both_recipes_are_shown(client: TestClient) -> None:
    html = client.get("/reference?sweep=head-count&table=grid_h_kv_100m_converged").text
    recipe = html.split("recipe-title")[-1]
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td><span[^>]*>(.*?)</span>', recipe)
    told = {name: (published, ours) for name, published, ours in rows}
    assert told["peak lr"] == ("5e-4", "1e-3")
    assert told["steps"] == ("20000", "400")
    assert told["corpus"][0] == "FineWeb-Edu"
    assert told["seeds"] == ("1", "3")
    assert "magnitudes do not" in html


@pytest.mark.parametrize("table", [*COMPARED, *KEPT])
def test_every_published_table_is_shown(client: TestClient, table: str) -> None:
    answer = client.get(f"/reference?sweep=&table={table}")
    assert answer.status_code == 200
    shown = answer.text.split('aria-label="Rows"')[1].split("</table>")[0].count("<tr>")
    heads = 2 if table in COMPARED else 1
    rows = len(published_table(table)) if table in KEPT else sum(r.table == table for r in published_rows())
    assert shown == heads + min(100, rows)
    assert ("Showing 100 of" in answer.text) == (rows > 100)


def test_without_a_result_there_is_neither_sign_nor_order(client: TestClient, session: Session) -> None:
    table = ablation_table(session, "head-count", with_reference=True)
    assert table.reference is not None
    assert {place_of(match, table.reference, {}) for match in table.reference.matches} == {(0, 0)}
    page = reference_page(session, GRID | {"sweep": "waiting"})
    assert {(line.sign, line.order, line.differs) for line in page.lines} == {("", "", False)}
    assert page.summary == ()
    assert "No cell of" in client.get("/reference?sweep=waiting&table=grid_h_kv_100m_converged").text


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("sweep=head-cont", 404, "did you mean &#39;head-count&#39;?"),
        ("sweep=&table=grid_h_kv_1", 422, "did you mean &#39;grid_h_kv_1b&#39;?"),
        ("sweeps=x", 422, "did you mean &#39;sweep&#39;?"),
    ],
)
def test_what_is_not_there_is_told(client: TestClient, query: str, status: int, words: str) -> None:
    answer = client.get(f"/reference?{query}")
    assert (answer.status_code, words in answer.text) == (status, True)

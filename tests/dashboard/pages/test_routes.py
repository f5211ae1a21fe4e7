import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from headcount.api.results import list_sweeps
from headcount.api.security import scope_of
from headcount.dashboard import text
from headcount.dashboard.pages import submission as submit
from headcount.dashboard.pages.routes import create_service, router
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Cell, Job, Sweep, SweepJob

LIST = "/?q=&state=&owner=&sort=-submitted"
REST = "lines=model.kv_heads&bars="
LOSS, DELTA = "y=loss&bars=se&reference=none", "y=delta&bars=t&reference=none"


class Cells(HTMLParser):
    """The text of every cell of the first table under a heading, row by row."""

    def __init__(self, title: str, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._title, self._near, self._inside = title, False, False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "div" and ("aria-label", self._title) in attrs:
            self._near = True
        if self._near and tag == "tr":
            self.rows.append([])
        if self._near and tag in ("td", "th"):
            self._inside = True
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._inside = False
        if tag == "table":
            self._near = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data.strip()


def page(client: TestClient, path: str) -> str:
    response = client.get(path, follow_redirects=True)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    return response.text


def test_every_page_declares_its_scope() -> None:
    declared = [
        (route.path, *sorted(route.methods), scope_of(route))
        for route in (*router.routes, *submit.router.routes)
    ]
    assert declared == [
        ("/", "GET", "read"),
        ("/sweeps/{sweep:path}", "GET", "read"),
        ("/compare", "GET", "read"),
        ("/reference", "GET", "read"),
        ("/jobs/{job}", "GET", "read"),
        ("/jobs/{job}/attempts/{number}/log", "GET", "read"),
        ("/submit", "GET", "read"),
        ("/submit", "POST", "submit"),
    ]


def test_the_list_shows_every_sweep_with_its_progress(client: TestClient, session: Session) -> None:
    html = page(client, LIST)
    for sweep in list_sweeps(session):
        assert f'href="/sweeps/{sweep.name}"' in html
        assert f'value="{sweep.progress}" aria-label="Progress of {sweep.name}"' in html
        assert f"{sweep.settled} of {text.plural(sweep.jobs, 'job')}" in html
    assert "107 of 108 jobs" not in html
    assert "104 of 108 jobs · 1 running · 1 diverged · 1 failed" in html


def test_an_address_is_completed_with_the_defaults(client: TestClient) -> None:
    response = client.get("/sweeps/in-flight")
    assert (response.status_code, response.headers["location"]) == (
        307,
        f"?y=delta&train.peak_lr=5e-4&{REST}t&reference=none",
    )
    response = client.get("/sweeps/in-flight?y=loss")
    assert (response.status_code, response.headers["location"]) == (
        307,
        f"?y=loss&train.peak_lr=5e-4&{REST}se&reference=none",
    )
    complete = f"/sweeps/in-flight?y=loss&train.peak_lr=1e-3&{REST}sd&reference=none"
    assert client.get(complete).status_code == 200


def test_the_paired_table_has_the_numbers_of_the_csv(client: TestClient) -> None:
    """Each number of the page is the API's, rounded."""
    rows = {
        (r["model.routing_heads"], r["model.kv_heads"]): r
        for r in csv.DictReader(io.StringIO(client.get("/api/v1/sweeps/head-count/table.csv").text))
        if r["role"] == "treatment"
    }
    tests = {
        (r["model.routing_heads"], r["model.kv_heads"]): r
        for r in csv.DictReader(io.StringIO(client.get("/api/v1/sweeps/head-count/tables/tests.csv").text))
    }
    header, *shown = Cells(
        "Every cell against its control", page(client, "/sweeps/head-count?tab=paired&bars=t")
    ).rows
    assert header == [
        "Rank",
        "H",
        "KV",
        "Loss",
        "SD",
        "n",
        "Delta",
        "95 % interval",
        "Pairs",
        "ρ̂",
        "p",
        "Holm p",
        "State",
    ]
    treatments = [row for row in shown if row[0] != "control"]
    assert len(treatments) == len(rows) == 15
    assert [row[0] for row in treatments] == ["1 ★", *map(str, range(2, 16))]
    for _, heads, kv, *numbers in treatments:
        exact = rows[heads, kv]
        assert numbers[:8] == [
            text.number(float(exact["mean"])),
            text.number(float(exact["sd"])),
            exact["n"],
            text.signed(float(exact["delta"])),
            text.interval(float(exact["delta_low"]), float(exact["delta_high"])),
            exact["pairs"],
            text.number(float(tests[heads, kv]["correlation"]), 2),
            text.p_value(float(exact["p"])),
        ]


def test_a_link_to_the_csv_stands_beside_each_figure(client: TestClient) -> None:
    html = page(client, f"/sweeps/head-count?{DELTA}")
    assert html.count('href="/api/v1/sweeps/head-count/table.csv"') == 2


def test_the_completeness_has_every_job(client: TestClient, session: Session) -> None:
    html = page(client, "/sweeps/in-flight?tab=plan")
    jobs = session.scalars(
        select(SweepJob.job_id).join(Sweep, Sweep.id == SweepJob.sweep_id).where(Sweep.name == "in-flight")
    ).all()
    assert sorted(re.findall(r'href="/jobs/([0-9a-f]{64})"', html)) == sorted(jobs)
    header, *rows = Cells("Completeness", html).rows
    assert header == ["Cell", "seed 10", "seed 11", "seed 12"]
    found = {row[0]: row[1:] for row in rows}
    assert found["H\u00a01 · KV\u00a04 · LR\u00a01e-3"] == ["queued"] * 3
    assert found["H\u00a016 · KV\u00a01 · LR\u00a01e-3"][0] == "diverged"
    assert found["H\u00a08 · KV\u00a04 · LR\u00a01e-3"][2] == "running"


@pytest.mark.parametrize("path", [LIST, f"/sweeps/head-count?{LOSS}", "/sweeps/waiting?tab=plan", "job"])
def test_a_page_that_did_not_change_is_not_sent_again(
    client: TestClient, session: Session, path: str
) -> None:
    if path == "job":
        path = f"/jobs/{session.scalars(select(Job.id)).first()}"
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get(path, headers={"If-None-Match": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/sweeps/head-cont", 404, "did you mean &#39;head-count&#39;?"),
        ("/sweeps/head-count?y=los", 422, "did you mean &#39;loss&#39;?"),
        ("/sweeps/head-count?limt=3", 422, "This page knows no &#39;limt&#39;"),
        ("/jobs/fff", 404, "No job &#39;fff&#39;"),
        (f"/jobs/{'f' * 64}", 404, "No job has the id"),
        ("/sweeps/%3Cscript%3E", 404, "&lt;script&gt;"),
    ],
)
def test_an_error_is_a_page_that_says_what_to_do(
    client: TestClient, path: str, status: int, message: str
) -> None:
    response = client.get(path)
    assert response.status_code == status
    assert message in response.text
    assert '<a href="/">All sweeps</a>' in response.text


def test_the_beginning_of_an_id_leads_to_the_job(client: TestClient, session: Session) -> None:
    job = session.scalars(select(Job.id)).first()
    answer = client.get(f"/jobs/{job[:12]}")
    assert (answer.status_code, answer.headers["location"]) == (307, job)


def test_a_job_shows_its_attempts_environment_and_difference(client: TestClient, session: Session) -> None:
    job_id = session.scalars(select(SweepJob.job_id).where(SweepJob.control_job_id.is_not(None))).first()
    html = page(client, f"/jobs/{job_id}")
    _, attempt = Cells("Attempts", html).rows
    assert attempt[:5] == ["1", "finished", "slot-0", "node-a", "0"]
    _, *differences = Cells("Difference from the control", html).rows
    assert ["model.residual", "mhar", "additive"] in differences
    for name, value in (("device", "cpu"), ("torch", "2.11.0"), ("micro batch", "8")):
        assert f'<dt>{name}</dt><dd class="usertext">{value}</dd>' in html
    assert f'href="/api/v1/jobs/{job_id}/evaluations.csv"' in html


def test_a_failed_job_shows_why(client: TestClient, session: Session) -> None:
    job_id = session.scalars(select(Job.id).where(Job.state == "failed")).one()
    html = page(client, f"/jobs/{job_id}")
    assert "user error" in html
    assert '<pre tabindex="0">ValueError: no text</pre>' in html


def test_every_figure_has_a_caption_a_summary_and_a_table(client: TestClient) -> None:
    html = page(client, f"/sweeps/head-count?{DELTA}")
    assert (
        html.count('role="img" aria-label="') == html.count("<figcaption>") == html.count('class="plot') == 2
    )
    assert "n up to 3 (seeds 0, 1, 2). Shown at LR\u00a01e-3. Bars: 95\u00a0%" in html
    assert html.count("Data version 7.") == 2


def test_static_files_are_kept_under_the_hash_of_their_content(client: TestClient) -> None:
    addresses = set(
        re.findall(r'"(/static/[^"]+\?v=[0-9a-f]{12})"', page(client, f"/sweeps/head-count?{LOSS}"))
    )
    assert len(addresses) == 7
    for address in addresses:
        response = client.get(address)
        assert response.status_code == 200
        assert response.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert "immutable" not in client.get("/static/inter.woff2").headers.get("cache-control", "")
    assert client.get("/static/../pages.py").status_code == 404


def test_nothing_on_a_page_is_from_another_host(client: TestClient) -> None:
    for path in (LIST, f"/sweeps/head-count?{DELTA}"):
        html = page(client, path)
        assert not re.search(r"""(?:src|href|action)=["']?(?:https?:)?//""", html)
        assert not re.search(r"<style|<script(?![^>]*(?:src=|application/json))| on[a-z]+=", html)


def test_a_sweep_without_axes_is_its_table(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, "one-cell", heads=(2, 4, 8), kv_heads=(1,), curves=False)
        session.scalars(select(Sweep)).one().axes = {}
        control, _, only, _ = session.scalars(select(Cell).order_by(Cell.position))
        control.settings = only.settings = {}
        others = select(Cell.id).where(Cell.id.not_in((control.id, only.id)))
        session.execute(delete(SweepJob).where(SweepJob.cell_id.in_(others)))
        session.execute(delete(Cell).where(Cell.id.in_(others)))
    settings = Settings(tmp_path, str(store.engine.url), tmp_path)
    with TestClient(create_service(store, settings), base_url="http://localhost") as client:
        html = page(client, "/sweeps/one-cell")
    assert html.count('role="img"') == 1
    header, treatment, control_row = Cells("Every cell against its control", html).rows
    assert header[:3] == ["Rank", "Loss", "SD"]
    assert (treatment[0], control_row[0]) == ("1 ★", "control")
    assert "<strong>The only cell</strong> has the lowest loss: " in html

"""A job's page: its figures, what its attempts printed, and what one can do next."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import evaluations, job_view
from headcount.dashboard.pages.job import job_page
from headcount.dashboard.pages.job_figures import job_figures
from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store
from headcount.orchestrator.store.models import Attempt, Job, Measurement, SweepJob

HOSTILE = "\x1b[31m<script>alert(1)</script>"


def treatment(session: Session, state: str = "finished") -> str:
    query = select(SweepJob.job_id).join(Job, Job.id == SweepJob.job_id)
    return session.scalars(query.where(SweepJob.control_job_id.is_not(None), Job.state == state)).all()[0]


def test_the_figures_are_the_losses_the_delta_and_how_it_trained(session: Session) -> None:
    job = job_view(session, treatment(session))
    loss, delta, signals = job_figures(session, job, "the cell")
    assert (loss.id, delta.id, signals.id) == ("loss", "delta", "signals")
    assert job.control_id
    own, control = evaluations(session, job.id), evaluations(session, job.control_id)
    drawn = {trace["name"]: trace for trace in loss.drawn["data"]}
    assert list(drawn["validation of the control"]["y"]) == [point.loss for point in control]
    (line,) = [trace for trace in delta.drawn["data"] if trace["name"] == "the cell"]
    assert list(line["y"]) == pytest.approx(
        [a.loss - b.loss for a, b in zip(own, control, strict=True)]  # type: ignore[operator]
    )
    assert "Dotted: validation of the control" in loss.caption


def test_each_figure_leaves_as_a_file(client: TestClient, session: Session) -> None:
    job = treatment(session)
    html = client.get(f"/jobs/{job}").text
    links = re.findall(r'href="(/jobs/[0-9a-f]+/figures/[^"]+)"', html)
    assert len(links) == 2 * 4 + 1
    for link in links:
        answer = client.get(link)
        assert answer.status_code == 200
        name = link.rstrip("?").rpartition("/")[2]
        assert answer.headers["content-disposition"] == f'attachment; filename="job-{job[:12]}-{name}"'
    assert client.get(f"/jobs/{job}/figures/signals.pdf").status_code == 422
    numbers = client.get(f"/jobs/{job}/figures/signals.csv").text.splitlines()
    assert numbers[:2] == ["series,x,y", "Gradient norm,10.0,0.5"]
    assert numbers[-1] == "Tokens a second,400.0,100000.0"
    assert "did you mean" in client.get(f"/jobs/{job}/figures/los.pdf").text


def test_a_job_that_waits_has_one_figure(session: Session) -> None:
    job = job_view(session, session.scalars(select(Job.id).where(Job.state == "queued")).all()[0])
    assert [figure.id for figure in job_figures(session, job, "")] == ["loss"]


@pytest.mark.parametrize(
    ("state", "commands"),
    [
        ("finished", ["replay", "logs"]),
        ("diverged", ["replay", "logs"]),
        ("failed", ["logs"]),
        ("running", ["logs", "why"]),
        ("queued", ["logs", "why"]),
    ],
)
def test_what_to_type_next(client: TestClient, session: Session, state: str, commands: list[str]) -> None:
    job = session.scalars(select(Job.id).where(Job.state == state)).all()[0]
    html = client.get(f"/jobs/{job}").text
    offered = [
        name for name in ("replay", "logs", "why") if f"<code>headcount {name} {job[:12]}</code>" in html
    ]
    assert offered == commands


def test_the_page_leads_to_the_comparison_with_its_control(client: TestClient, session: Session) -> None:
    job = treatment(session)
    wish = session.execute(select(SweepJob).where(SweepJob.job_id == job)).scalars().one()
    control = session.scalars(select(SweepJob.cell_id).where(SweepJob.job_id == wish.control_job_id)).one()
    link = f"/compare?cell={control}&cell={wish.cell_id}&y=delta"
    assert link.replace("&", "&amp;") in client.get(f"/jobs/{job}").text
    assert client.get(link).status_code == 200


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[tuple[TestClient, str]]:
    """A job with two attempts, of which the last printed 100 lines, and the store's pages."""
    store: Store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, heads=(1, 2), kv_heads=(1,), seeds=(0,))
        job = treatment(session)
        first = session.scalars(select(Attempt).where(Attempt.job_id == job)).one()
        first.log = "jobs/first.log"
        session.add(
            Attempt(
                job_id=job, number=2, epoch=1, slot="slot-1", started=first.started, log="jobs/second.log"
            )
        )
    (tmp_path / "jobs").mkdir()
    lines = [f"line {i} {HOSTILE}" for i in range(100)]
    (tmp_path / "jobs/second.log").write_bytes("\n".join(lines).encode() + b"\n\xff")
    settings = Settings(tmp_path, str(store.engine.url), tmp_path)
    with TestClient(create_service(store, settings), base_url="http://localhost") as client:
        yield client, job


def test_the_end_of_what_it_printed_is_on_the_page(printed: tuple[TestClient, str]) -> None:
    client, job = printed
    html = client.get(f"/jobs/{job}").text
    assert "What attempt 2 printed: the last 60 of 101 lines" in html
    assert "line 99 " in html
    assert "line 40 " not in html
    assert "<script>alert" not in html
    assert f'href="/jobs/{job}/attempts/1/log"' in html


def test_all_of_it_is_plain_text(printed: tuple[TestClient, str]) -> None:
    client, job = printed
    answer = client.get(f"/jobs/{job}/attempts/2/log")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text.count(HOSTILE) == 100
    for path in (f"/jobs/{job}/attempts/1/log", f"/jobs/{job}/attempts/3/log", "/jobs/1/attempts/1/log"):
        missing = client.get(path)
        assert (missing.status_code, "left no output" in missing.text) == (404, True)


def test_what_its_sites_told_is_a_table(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    told = {"mfu": 0.25, "routing_entropy": 0.4, "routing_entropy.0": 0.0, "routing_entropy.1": 0.8}
    told |= {"routing_top_source.0": 0.0, "routing_top_source.1": 1.0}
    with store.write() as session:
        build_sweep(session, heads=(2,), kv_heads=(1,), seeds=(0,), curves=False)
        job = session.scalars(select(Job).where(Job.config["model.residual"].as_string() == "mhar")).one()
        session.add_all(Measurement(job_id=job.id, name=name, value=value) for name, value in told.items())
        id = job.id
    with store.read() as session:
        page = job_page(session, id, lambda key: None)
    store.close()
    assert set(page.measured) == {"mfu", "routing_entropy", "tokens_per_second"}
    assert page.sites == ((0, 0.0, 0.0), (1, 0.8, 1.0))

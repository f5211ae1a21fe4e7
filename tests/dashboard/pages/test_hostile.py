"""What users write is text on every page, whatever it is."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import build_sweep
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Attempt, Cell, Dataset, Job, Sweep

HOSTILE = "<script>alert('x')</script>\" onload=\"x\" 'q' &amp; ‮rtl‬ עברית {{ 7*7 }} " + "long " * 1000


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[TestClient]:
    """A store in which everything that a user can write is hostile."""
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, "plain", heads=(1, 2, 4), kv_heads=(1,), seeds=(0,))
        sweep = session.scalars(select(Sweep)).one()
        sweep.description = sweep.yaml = HOSTILE
        sweep.name = sweep.owner = HOSTILE[:200]
        sweep.axes = sweep.axes | {"data.source": [HOSTILE, "x"]}
        for cell in session.scalars(select(Cell)):
            cell.settings = cell.settings | {"data.source": HOSTILE}
        for job in session.scalars(select(Job)):
            job.config = job.config | {"data.source": HOSTILE}
        session.execute(update(Dataset).values(name=HOSTILE[:200]))
        session.execute(update(Attempt).values(message=HOSTILE, node=HOSTILE[:200], slot=HOSTILE[:100]))
        session.execute(update(Attempt).values(environment={HOSTILE: HOSTILE}))
    with TestClient(
        create_service(store, Settings(tmp_path, str(store.engine.url), tmp_path)),
        base_url="http://localhost",
    ) as client:
        yield client


def page(client: TestClient, path: str) -> str:
    response = client.get(path, follow_redirects=True)
    assert response.status_code == 200, response.text
    return response.text


def test_what_users_write_is_text_everywhere(hostile: TestClient) -> None:
    listing = page(hostile, "/")
    address = re.search(r'href="(/sweeps/[^"]+)"', listing)
    assert address
    sweep = page(hostile, address[1])
    plan = page(hostile, f"{address[1]}?tab=plan")
    job = re.search(r'href="(/jobs/[0-9a-f]{64})"', plan)
    assert job
    name = address[1].removeprefix("/sweeps/")
    compared = hostile.get(f"/compare?sweep={name}", follow_redirects=True).text
    cells = re.findall(r"cell=([0-9]+)", page(hostile, job[1]))
    others = (
        compared,
        hostile.get("/compare?" + "&".join(f"cell={cell}" for cell in cells), follow_redirects=True).text,
        hostile.get(f"/reference?sweep={name}", follow_redirects=True).text,
        page(hostile, f"/submit?from={name}"),
    )
    missing = hostile.get(f"/compare?sweep={name}x", headers={"Accept": "text/html"}).text
    assert "&lt;script&gt;alert(" in missing
    assert "<script>alert" not in missing
    for html in (listing, sweep, plan, page(hostile, job[1]), *others):
        assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&#34; onload=&#34;x&#34;" in html
        assert "<script>alert" not in html
        assert ' onload="' not in html
        assert "{{ 7*7 }}" in html

"""Sweeps of imported runs have pages like any other."""

from pathlib import Path

from fastapi.testclient import TestClient
from sqlalchemy import select

from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.exchange.external import import_runs
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Job

RUNS = """\
heads,residual,seed,loss,optimizer
,additive,0,3.50,adamw
,additive,1,3.52,adamw
1,mhar,0,3.48,adamw
1,mhar,1,3.51,adamw
4,mhar,0,3.44,adamw
4,mhar,1,3.47,adamw
"""


def test_the_pages_of_an_imported_sweep(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(RUNS)
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    mapping = {"model.routing_heads": "heads", "model.residual": "residual", "optimizer": "optimizer"}
    import_runs(store, file, "theirs", mapping, {"model.residual": "additive"}, "me")
    settings = Settings(tmp_path, str(store.engine.url), tmp_path)
    with TestClient(create_service(store, settings), base_url="http://127.0.0.1") as client:
        page = client.get("/sweeps/theirs?tab=plan")
        assert (page.status_code, "Imported from runs.csv" in page.text) == (200, True)
        assert "theirs" in client.get("/").text
        with store.read() as session:
            job = session.scalars(select(Job.id)).first()
        assert client.get(f"/jobs/{job}").text.count("external") >= 1
    store.close()

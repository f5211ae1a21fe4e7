"""The numbers of the database, the API's files, the terminal, the page and the report are the same ones."""

import csv
import io
import re

import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from sqlalchemy import text as sql

from headcount.api.commands import table as table_command
from headcount.dashboard.report import report
from headcount.orchestrator.store import Store

LOSSES = """
SELECT cell.settings ->> '$."model.routing_heads"', cell.settings ->> '$."model.kv_heads"',
       avg(job.tail_mean), avg(job.tail_mean - control.tail_mean)
FROM sweep_job JOIN sweep ON sweep.id = sweep_job.sweep_id JOIN cell ON cell.id = sweep_job.cell_id
JOIN job ON job.id = sweep_job.job_id JOIN job AS control ON control.id = sweep_job.control_job_id
WHERE sweep.name = 'head-count' GROUP BY cell.id
"""


def test_loss_and_delta_are_the_same_wherever_they_are_read(
    store: Store,
    client: TestClient,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADCOUNT_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("HEADCOUNT_DATABASE_URL", str(store.engine.url))
    with store.read() as session:
        database = {(str(h), str(kv)): (loss, delta) for h, kv, loss, delta in session.execute(sql(LOSSES))}
        written = report(session, "head-count")
    api = client.get("/api/v1/sweeps/head-count/table.csv").text
    page = client.get("/sweeps/head-count?tab=paired&bars=t").text
    printed = (
        CliRunner().invoke(table_command, ["head-count", "--format", "md"], catch_exceptions=False).output
    )

    assert len(database) == 15
    for row in csv.DictReader(io.StringIO(api)):
        if row["role"] == "control":
            continue
        loss, delta = database[row["model.routing_heads"], row["model.kv_heads"]]
        assert float(row["mean"]) == pytest.approx(loss, rel=1e-12)
        assert float(row["delta"]) == pytest.approx(delta, rel=1e-9)
        shown, change = f"{loss:.4f}", f"{delta:+.4f}"
        start = rf"\| {row['model.routing_heads']} \| {row['model.kv_heads']} \| [^|]+ \| {shown} \|"
        assert re.search(rf"{start}[^\n]*\| {re.escape(change)} \|", printed)
        cells = [
            f'<td class="number usertext">{row[axis]}</td>'
            for axis in ("model.routing_heads", "model.kv_heads")
        ]
        for html in (page, written):
            rows = (" ".join(tr.split()) for tr in html.split("<tr")[1:])
            line = next(tr for tr in rows if "".join(cells) in tr)
            assert f'{"".join(cells)} <td class="number">{shown}</td>' in line
            assert f'<td class="number">{change.replace("-", "−")}</td>' in line

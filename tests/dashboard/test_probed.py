"""What instruments found, on the Depth tab: the numbers of files and measurements, nothing without."""

import json
from collections.abc import Iterator

import pytest
from builders import START, build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.probed import probed_cells
from headcount.dashboard.pages.sweep import sweep_page
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Artifact, Cell, Job, Measurement, SweepJob

FILES: dict[str, bytes] = {}


def site(number: int, excess: float) -> dict[str, object]:
    weights = [[0.5 + excess, 0.5 - excess], [0.5 - excess, 0.5 + excess]]
    return {
        "site": number,
        "disagreement": 0.1 + excess,
        "null": 0.05,
        "oldest_weight": 0.5,
        "weights": weights,
    }


def add_child(session: Session, parent: Job, kind: str, measured: dict[str, float], content: object) -> None:
    child = f"{kind[0] * 2}{parent.id[2:]}"
    common = {"seed": parent.seed, "fingerprint": parent.fingerprint, "numerics": 1, "parameters": 1}
    session.add(
        Job(
            id=child,
            kind=kind,
            parent_id=parent.id,
            config=parent.config,
            flops=0.0,
            state="finished",
            created=START,
            ended=START,
            **common,
        )
    )
    session.flush()
    session.add_all(Measurement(job_id=child, name=name, value=value) for name, value in measured.items())
    FILES[f"jobs/{child}"] = json.dumps(content).encode()
    session.add(Artifact(key=f"jobs/{child}", job_id=child, kind=kind, sha256="0" * 64, created=START))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """One sweep; the cell H = 1 is probed at both seeds, all are scored."""
    store = open_store(f"sqlite:///{tmp_path_factory.mktemp('probed') / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, "looked-at", heads=(1, 4, 8), kv_heads=(1,), seeds=(0, 1), curves=False)
        build_sweep(session, "not-looked-at", heads=(1, 4, 8), kv_heads=(2,), seeds=(0,), curves=False)
        rows = (
            select(Job, Cell)
            .join(SweepJob, SweepJob.job_id == Job.id)
            .join(Cell, Cell.id == SweepJob.cell_id)
        )
        for job, cell in session.execute(rows.where(Cell.sweep_id == 1)).all():
            score = {"downstream.lambada_openai.acc": 0.25, "downstream.lambada_openai.acc.stderr": 0.02}
            right = [cell.settings.get("model.routing_heads") == 8 or item < 2 for item in range(8)]
            items = {"lambada_openai": {"acc": {str(item): float(is_so) for item, is_so in enumerate(right)}}}
            add_child(session, job, "evaluate", score, {"items": items})
            if cell.settings.get("model.routing_heads") == 1:
                sites = [site(number, 0.01 * (1 + job.seed)) for number in (1, 2)]
                add_child(session, job, "probe", {"probe.excess": 0.065}, {"sites": sites})
    with store.read() as session:
        yield session
    store.close()


def test_the_means_are_over_the_jobs_of_a_cell(session: Session) -> None:
    of = select(Cell.id, Cell.settings).where(Cell.sweep_id == 1)
    cells = {settings.get("model.routing_heads"): cell for cell, settings in session.execute(of)}
    found = probed_cells(session, "looked-at", list(cells.values()), FILES.get)
    assert found.keys() == {cells[1]}
    probed = found[cells[1]]
    assert probed.seeds == (0, 1)
    assert probed.sites[0].disagreement == pytest.approx(0.1 + 0.015)
    assert probed.sites[1].deviation.tolist() == [
        pytest.approx([0.015, -0.015]),
        pytest.approx([-0.015, 0.015]),
    ]
    assert probed_cells(session, "looked-at", [cells[1]], lambda key: None) == {}


def test_the_depth_tab_shows_what_was_looked_at_and_nothing_else(session: Session) -> None:
    page = sweep_page(session, "looked-at", {"tab": "depth"}, read=FILES.get)
    figures = {figure.id: figure for figure in page.figures}
    disagreement = figures["probe-disagreement"]
    assert [trace["name"] for trace in disagreement.drawn["data"]] == ["H\u00a01", "H\u00a01: null"]
    assert disagreement.drawn["data"][0]["y"] == pytest.approx([0.115, 0.115])
    assert disagreement.table.rows[0] == ["H\u00a01", "1", "0.1150", "0.0500", "0.5000"]
    assert "0.1150 nats against 0.0500 of random queries over 2 sites" in disagreement.summary
    heads = figures["probe-heads"]
    assert heads.drawn["data"][0]["z"][0] == pytest.approx([0.015, -0.015, 0.015, -0.015])
    assert heads.table.rows[0] == ["1", "0", "0", "+0.0150"]
    scores = figures["downstream"]
    ours = [row for row in scores.table.rows if not row[0].startswith("published")]
    assert len(ours) == 4
    assert ours[0][1:5] == ["lambada_openai acc", "0.2500", "0.0200", "2"]
    assert [row[7] for row in ours] == ["", "1.000", "1.000", "0.031"]  # six of eight items, 2 / 2^6
    assert [row[6].split()[0] for row in ours[1:]] == ["0.000", "0.000", "+0.750"]
    published = [row for row in scores.table.rows if row[0].startswith("published: 1b mhar")]
    assert [row[1:3] for row in published] == [["lambada", "0.160"]]
    plain = sweep_page(session, "not-looked-at", {"tab": "depth"}, read=FILES.get)
    assert not {"probe-disagreement", "downstream"} & {figure.id for figure in plain.figures}

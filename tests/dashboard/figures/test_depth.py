from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.dashboard.exports.marks import marks_of
from headcount.dashboard.exports.numbers import figure_csv
from headcount.dashboard.figures.depth import DepthLine, depth_summary, sources_figure
from headcount.dashboard.pages.sweep import sweep_page
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Job, Measurement


@pytest.fixture
def routed(tmp_path: Path) -> Iterator[Session]:
    """Jobs of H = 1 and 2 at seeds 0 and 1 have told four sites; H = 4 has told none."""
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    with store.write() as session:
        build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0, 1), curves=False)
        for job in session.scalars(select(Job)):
            heads = job.config["model.routing_heads"] if job.config["model.residual"] == "mhar" else 4
            if heads == 4:
                continue
            for site in range(4):
                told = {"entropy": 0.1 * site * heads + 0.2 * job.seed, "top_source": max(0, site - heads)}
                session.add_all(
                    Measurement(job_id=job.id, name=f"routing_{name}.{site}", value=value)
                    for name, value in told.items()
                )
    with store.read() as session:
        yield session
    store.close()


def test_the_tab_draws_what_the_sites_told(routed: Session) -> None:
    entropy, sources, *_ = sweep_page(routed, "head-count", {"tab": "depth"}).figures
    lines = {trace["name"]: trace["y"] for trace in entropy.drawn["data"]}
    assert lines == {
        "H\u00a01": pytest.approx([0.1, 0.2, 0.3, 0.4]),
        "H\u00a02": pytest.approx([0.1, 0.3, 0.5, 0.7]),
    }
    heat, labels = sources.drawn["data"]
    assert heat["z"] == [[0, 0, 1, 2], [0, 0, 0, 1]]
    assert labels["text"] == ["0", "0", "1", "2", "0", "0", "0", "1"]
    for figure in (entropy, sources):
        assert "Not drawn: H\u00a04 (no ended job has told its sites)" in figure.caption
        assert (
            "H\u00a01: mean entropy 0.2500 nats over 4 sites, 3 sources the heaviest somewhere"
            in figure.summary
        )


def test_before_a_job_has_told_there_is_nothing_to_draw(session: Session) -> None:
    for figure in sweep_page(session, "head-count", {"tab": "depth"}).figures[:2]:
        assert figure.summary == "No ended job has told how its sites read the depth."
        assert figure.drawn["layout"]["annotations"][0]["text"].startswith("No result yet<br>")


def test_models_of_other_depths_share_a_map() -> None:
    drawn = sources_figure([DepthLine("a", (0.1,), (0,)), DepthLine("<b>b</b>", (0.1, 0.2), (0, 1))])
    assert drawn["data"][0]["z"] == [[0, None], [0, 1]]
    assert drawn["data"][0]["y"] == ["a", "&lt;b&gt;b&lt;/b&gt;"]
    assert depth_summary([DepthLine("a", (0.1,), (0,))]).endswith("1 source the heaviest somewhere.")


def test_the_csv_names_the_cells() -> None:
    drawn = sources_figure([DepthLine("a", (0.1, 0.3), (0, 1)), DepthLine("b", (0.1, 0.2), (0, 0))])
    assert figure_csv(marks_of(drawn)).splitlines() == [
        "series,x,y,value",
        *("cell,0.0,a,0", "cell,1.0,a,1", "cell,0.0,b,0", "cell,1.0,b,0"),
    ]

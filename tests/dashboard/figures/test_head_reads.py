"""The maps of what heads read hold the weights that the jobs told, and say where nothing is known."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from builders import START, build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results import QueryError
from headcount.api.results.head_reads import HeadReads
from headcount.dashboard.exports.files import file_of
from headcount.dashboard.figures.head_reads import (
    NOTHING,
    HeadMap,
    by_distance,
    by_site,
    entropies,
    map_figure,
    map_summary,
    map_table,
)
from headcount.dashboard.pages.sweep import sweep_page
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Artifact, Job

WEIGHTS = [[[1.0], [1.0]], [[0.25, 0.75], [0.5, 0.5]], [[0.125, 0.625, 0.25], [0.0, 0.25, 0.75]]]
"""Of three sites with two heads, over one, two and three sources."""
ENTROPY = [[0.0, 0.0], [0.5, 0.7], [0.9, 0.6]]
READS = HeadReads((0,), tuple(map(np.array, ENTROPY)), tuple(map(np.array, WEIGHTS)))
RAGGED = HeadReads((0,), (np.array([0.0, 0.1]), np.array([0.5])), (np.ones((2, 1)), np.array([[0.25, 0.75]])))
"""The second site has one head."""


def test_by_distance_the_oldest_source_stands_apart() -> None:
    """Head 0 gives the newest 0.75 and 0.25; the one before it is read at the last site alone."""
    assert by_distance(READS).values == [
        [0.5, 0.625, pytest.approx((1 + 0.25 + 0.125) / 3)],
        [0.625, 0.25, 0.5],
    ]
    assert by_distance(RAGGED).values == [[0.75, 0.625], [None, 1.0]]


def test_by_site_it_is_one_head() -> None:
    assert by_site(READS, 1).values == [[1.0, None, None], [0.5, 0.5, None], [0.0, 0.25, 0.75]]
    assert by_site(RAGGED, 1).values == [[1.0, None], [None, None]]
    assert by_site(READS, 7).nothing == "This cell has no head 7: its last is head 1."


def test_entropy_is_by_head_and_site() -> None:
    assert entropies(READS).values == [[0.0, 0.5, 0.9], [0.0, 0.7, 0.6]]
    assert entropies(RAGGED).values == [[0.0, 0.5], [0.1, None]]


def test_the_map_its_table_and_its_words() -> None:
    found = by_distance(READS)
    drawn = map_figure(found)
    go.Figure(drawn)  # plotly knows every field
    assert drawn["data"][0]["z"] == found.values
    assert (
        drawn["data"][0]["hovertext"][0][2] == "head 0, the oldest<br>mean weight over sites: <b>0.4583</b>"
    )
    assert map_table(found).columns == ["Head", "Distance", "Mean weight over sites"]
    assert map_table(found).rows[:3] == [
        ["0", "the newest", "0.5000"],
        ["0", "1 back", "0.6250"],
        ["0", "the oldest", "0.4583"],
    ]
    assert map_summary(found) == (
        "Mean weight over sites, the largest of each head: "
        "head 0 0.6250 at 1 back; head 1 0.6250 at the newest."
    )
    assert map_table(entropies(READS)).rows[1] == ["0", "site 1", "0.5000"]


@pytest.mark.parametrize("found", [by_distance(None), by_site(None, 0), entropies(None)])
def test_of_nothing_it_says_what_would_fill_it(found: HeadMap) -> None:
    assert map_summary(found) == NOTHING
    assert map_table(found).rows == []
    drawn = map_figure(found)
    assert drawn["data"] == []
    assert drawn["layout"]["annotations"][0]["text"].replace("<br>", " ") == f"No result yet {NOTHING}"
    assert not drawn["layout"]["xaxis"]["showticklabels"]


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[tuple[Session, dict[str, bytes]]]:
    """Jobs of H = 2 have told their heads apart."""
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    files = {}
    with store.write() as session:
        build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0, 1), curves=False)
        for job in session.scalars(select(Job).where(Job.config["model.routing_heads"].as_integer() == 2)):
            key = f"jobs/{job.id}/routing.jsonl"
            session.add(Artifact(key=key, job_id=job.id, kind="routing", step=4, sha256="", created=START))
            line = {"step": 400, "head_entropy": ENTROPY, "head_weights": WEIGHTS}
            files[key] = json.dumps(line).encode() + b"\n"
    with store.read() as session:
        yield session, files
    store.close()


def test_the_tab_shows_the_heads_of_one_cell(kept: tuple[Session, dict[str, bytes]]) -> None:
    session, files = kept
    page = sweep_page(session, "head-count", {"tab": "depth", "of": "2"}, read=files.get)
    assert [(option.name, option.chosen) for option in page.choice.options] == [("of", "2"), ("head", "all")]
    _, _, weights, entropy = page.figures
    assert weights.title == "What each head reads: H\u00a02"
    assert weights.drawn["data"][0]["z"] == by_distance(READS).values
    assert entropy.drawn["data"][0]["z"] == entropies(READS).values
    assert "Of H\u00a02, at the last step of its jobs" in weights.caption
    assert "(seeds 0, 1)" in weights.caption
    one = sweep_page(session, "head-count", {"tab": "depth", "of": "2", "head": "1"}, read=files.get).figures[
        2
    ]
    assert one.title == "What head 1 reads at each site: H\u00a02"
    assert one.drawn["data"][0]["z"] == by_site(READS, 1).values
    assert file_of(one, "csv").decode().splitlines()[:3] == [
        "series,x,y,value",
        "cell,0.0,0.0,1.0",
        "cell,0.0,1.0,0.5",
    ]
    other = sweep_page(session, "head-count", {"tab": "depth", "of": "4"}, read=files.get).figures[2]
    assert other.summary == NOTHING
    with pytest.raises(QueryError, match="head is '4'"):
        sweep_page(session, "head-count", {"tab": "depth", "head": "4"})

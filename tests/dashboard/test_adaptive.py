"""Pages of a sweep that adds cells to itself: open from before its first cell to after its last."""

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from search_study import TINY, Study

from headcount.api.results import ablation_table
from headcount.dashboard.choice import tabs_of
from headcount.dashboard.pages.routes import create_service
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import Store, open_store

SEARCH = (
    TINY
    + """\
  train.peak_lr: {low: 1e-4, high: 1e-2, log: true}
seeds: [0, 1]
search: {method: tpe, trials: 4, parallel: 2}
"""
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(f"sqlite:///{tmp_path / 'headcount.db'}")) as opened:
        yield opened


def loss(config: Mapping[str, Any], seed: int) -> float:
    rate = config["train.peak_lr"]
    return math.nan if rate > 6e-3 else 3 + math.log10(rate / 1e-3) ** 2 + 0.01 * seed


def test_every_page_opens_while_a_search_runs(store: Store, tmp_path: Path) -> None:
    study = Study(store, SEARCH)
    settings = Settings(tmp_path, "", tmp_path)
    with TestClient(create_service(store, settings), base_url="http://127.0.0.1") as client:
        for jobs, words in ((0, "No result yet"), (5, "No best cell yet"), (100, "has the lowest loss")):
            study.run(loss, most=jobs)
            with store.read() as session:
                tabs = tabs_of(ablation_table(session, "tiny"))
            for tab in tabs:
                answer = client.get(f"/sweeps/tiny?tab={tab}")
                assert answer.status_code == 200, (jobs, tab, answer.text[-1500:])
            assert words in client.get("/sweeps/tiny").text, jobs
            assert "tiny" in client.get("/").text
            for table in ("table", "cells", "head-curve", "paired", "jobs"):
                answer = client.get(f"/api/v1/sweeps/tiny/{table}")
                assert answer.status_code in (200, 404, 422), (jobs, table, answer.text[-1500:])
        assert "best of the search, on fresh seeds" in client.get("/sweeps/tiny?tab=paired").text
    assert study.sweep.growth == "over"

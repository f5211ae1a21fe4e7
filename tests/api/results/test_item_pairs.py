"""The table `items`: treatments and controls on the same items, against scipy and statsmodels."""

import csv
import hashlib
import io
import json
from collections.abc import Mapping
from datetime import timedelta

import numpy as np
import pytest
from fastapi.testclient import TestClient
from raw_sweep import MOMENT, RawCell, add_job, write_sweep
from scipy import stats
from sqlalchemy.orm import Session
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from headcount.api.results import NotFoundError, QueryError, item_pairs, items_table
from headcount.orchestrator.artifacts.folder import open_artifacts
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Artifact

AXES = {"model.routing_heads": (1, 4)}
SEEDS = range(2)
FILES: dict[str, bytes] = {}

Scores = Mapping[str, Mapping[str, list[float]]]
"""Task and metric to the score of each item, by its place."""


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_pairs, "_known", {})
    FILES.clear()


@pytest.fixture
def jobs(session: Session) -> list[dict[int, str]]:
    """A control and two treatments at two seeds; ids by cell and seed."""
    treated = [RawCell({"model.routing_heads": h}, dict.fromkeys(SEEDS, 3.4), 0) for h in (1, 4)]
    return write_sweep(session, "scored", AXES, [RawCell({}, dict.fromkeys(SEEDS, 3.5)), *treated])


def score(session: Session, parent: str, seed: int, scores: Scores, age: int = 0) -> None:
    """A finished evaluation of a job, and its file."""
    own = hashlib.sha256(f"{parent}{age}".encode()).hexdigest()
    ended = MOMENT + timedelta(hours=age)
    add_job(session, own, seed, None, config={}, kind="evaluate", parent=parent, ended=ended)
    items = {
        task: {
            metric: {str(n): value for n, value in enumerate(values)} for metric, values in metrics.items()
        }
        for task, metrics in scores.items()
    }
    content = json.dumps({"items": items}).encode()
    key = f"jobs/{own[:2]}/{own}/items.json"
    FILES[key] = content
    digest = hashlib.sha256(content).hexdigest()
    session.add(Artifact(key=key, job_id=own, kind="evaluate", sha256=digest, created=MOMENT))
    session.flush()


def test_items_are_paired_within_seeds_and_seeds_within_items(
    session: Session, jobs: list[dict[int, str]]
) -> None:
    rng = np.random.default_rng(0)
    right = (rng.random((3, 2, 40)) < np.array([0.4, 0.5, 0.7])[:, None, None]).astype(float)
    likely = rng.normal(-3, 1, 400) + rng.normal(0, 0.1, (3, 2, 400)) + np.array([0, 0, 0.1])[:, None, None]
    for cell, ids in enumerate(jobs):
        for seed, job in ids.items():
            old = {"heads": {"acc": [0.0] * 40}}
            score(session, job, seed, old)
            new = {
                "heads": {"acc": right[cell, seed].tolist()},
                "text": {"logs": likely[cell, seed].tolist()},
            }
            score(session, job, seed, new, age=1)
    found = items_table(session, "scored", FILES.get)
    rows = {(row["model.routing_heads"], row["task"]): row for row in found.rows}
    assert [(row["task"], row["metric"], row["items"], row["pairs"]) for row in found.rows] == [
        *[("heads", "acc", 40, 2), ("text", "logs", 400, 2)] * 2
    ]
    p_values = []
    for place, heads in enumerate((1, 4), 1):
        row, sums = rows[heads, "heads"], (right[place] - right[0]).sum(0)
        assert row["delta"] == pytest.approx(sums.mean() / 2)
        flips = np.random.default_rng(1).choice([-1, 1], (20_000, 40)) @ sums
        assert row["p"] == pytest.approx(np.mean(np.abs(flips) >= abs(sums.sum())), abs=0.012)
        p_values.append(row["p"])
        row, deltas = rows[heads, "text"], (likely[place] - likely[0]).mean(0)
        assert (row["p"], row["adjusted_p"]) == (None, None)
        interval = stats.bootstrap((deltas,), np.mean, method="percentile", rng=rng).confidence_interval
        assert [row["low"], row["high"]] == pytest.approx(list(interval), abs=0.1 * deltas.std() / 20)
    adjusted = [rows[heads, "heads"]["adjusted_p"] for heads in (1, 4)]
    assert adjusted == pytest.approx(multipletests(p_values, method="holm")[1], rel=1e-9)
    assert found.size == 2


def test_one_seed_is_mcnemar_and_only_common_items_count(
    session: Session, jobs: list[dict[int, str]]
) -> None:
    ours, theirs = [1.0] * 12 + [0.0] * 4 + [1.0, 0.0] * 3, [0.0] * 12 + [1.0] * 4 + [1.0, 0.0] * 3
    score(session, jobs[1][0], 0, {"heads": {"acc": ours}, "alone": {"acc": [1.0]}})
    score(session, jobs[0][0], 0, {"heads": {"acc": [*theirs, 1.0]}})
    score(session, jobs[1][1], 1, {"heads": {"acc": ours}})
    (row,) = items_table(session, "scored", FILES.get).rows
    assert (row["task"], row["items"], row["pairs"]) == ("heads", 22, 1)
    assert row["delta"] == pytest.approx(8 / 22)
    assert row["p"] == pytest.approx(mcnemar([[3, 12], [4, 3]], exact=True).pvalue, rel=1e-9)


def test_what_makes_no_pair_is_told(session: Session, jobs: list[dict[int, str]]) -> None:
    score(session, jobs[1][0], 0, {"heads": {"acc": [1.0]}})
    with pytest.raises(QueryError, match="no treatment of sweep 'scored' was scored on the same items as"):
        items_table(session, "scored", FILES.get)
    score(session, jobs[0][0], 0, {"heads": {"acc": [0.0]}})
    with pytest.raises(QueryError):
        items_table(session, "scored", lambda key: None)  # files that are gone, which may come back
    assert items_table(session, "scored", FILES.get).rows[0]["delta"] == 1.0
    with pytest.raises(NotFoundError):
        items_table(session, "other", FILES.get)


def test_it_is_answered_over_rest_from_the_files(store: Store, client: TestClient) -> None:
    with store.write() as session:
        cells = [RawCell({}, {0: 3.5}), RawCell({"model.routing_heads": 4}, {0: 3.4}, 0)]
        control, treated = (ids[0] for ids in write_sweep(session, "scored", AXES, cells))
        for job, acc in ((control, [0.0, 1.0]), (treated, [1.0, 1.0])):
            score(session, job, 0, {"heads": {"acc": acc}})
    path = "/api/v1/sweeps/scored/tables/items.csv"
    assert client.get(path).status_code == 422
    kept = open_artifacts(client.app.state.settings)  # type: ignore[attr-defined]
    for key, content in FILES.items():
        kept.write(key, content)
    (row,) = csv.DictReader(io.StringIO(client.get(path).text))
    assert (row["task"], row["metric"], row["delta"], row["items"]) == ("heads", "acc", "0.5", "2")

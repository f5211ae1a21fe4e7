"""Training losses, smoothing and the distance of a pair, on the tab of the curves."""

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from builders import START, build_sweep
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.training_curves import training_curves
from headcount.dashboard import text
from headcount.dashboard.figures.smoothing import ema
from headcount.dashboard.pages.sweep import sweep_page
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Artifact, Job

TAB = {"tab": "curves", "model.kv_heads": "4"}


def test_training_losses_are_those_of_the_results(session: Session) -> None:
    page = sweep_page(session, "head-count", TAB | {"y": "training"})
    (figure,) = page.figures
    assert (figure.id, figure.title) == ("curves-training", "Training loss by step")
    shown = [row for row in page.table.treatments if row.settings["model.kv_heads"] == 4]
    found = training_curves(session, "head-count", [row.cell for row in shown])
    for row in shown:
        curve = found[row.cell]
        name = text.cell_name(row.settings, False, page.choice.fixed)
        rows = [r for r in figure.table.rows if r[0] == name]
        assert [(r[1], r[2]) for r in rows] == [
            (f"{step:,}", text.number(mean)) for step, mean in zip(curve.steps, curve.mean, strict=True)
        ]


def test_smoothing_is_drawn_before_the_curve_itself(session: Session) -> None:
    (figure,) = sweep_page(session, "head-count", TAB | {"y": "loss", "smooth": "0.9"}).figures
    thick = [t for t in figure.drawn["data"] if t["line"]["width"] == 2.2 and t.get("xaxis") != "x2"]
    faint = [t for t in figure.drawn["data"] if t["line"]["width"] == 1.2]
    assert len(thick) == len(faint) == 6
    for smooth, raw in zip(thick, faint, strict=True):
        assert smooth["y"] == ema(raw["y"], 0.9)
    assert "moving average of weight 0.9, faint without it" in figure.caption


def test_the_tail_is_drawn_again_larger(session: Session) -> None:
    (figure,) = sweep_page(session, "head-count", TAB | {"y": "loss"}).figures
    tails = [t for t in figure.drawn["data"] if t.get("xaxis") == "x2"]
    lines = {
        t["name"]: t for t in figure.drawn["data"] if t["line"]["width"] == 2.2 and t.get("xaxis") != "x2"
    }
    assert len(tails) == len(lines) == 6
    for tail in tails:
        whole = lines[tail["name"]]
        assert (tail["x"], tail["y"]) == (whole["x"][-11:], whole["y"][-11:])
    (delta,) = sweep_page(session, "head-count", TAB | {"y": "delta"}).figures
    assert all("xaxis" not in trace for trace in delta.drawn["data"])


@pytest.fixture
def kept() -> Iterator[tuple[Session, dict[str, bytes]]]:
    """A sweep whose jobs at seed 1 left the training loss of every update."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'headcount.db'}")
        files = {}
        with store.write() as session:
            build_sweep(session, heads=(1, 2, 4), kv_heads=(1,), seeds=(0, 1), curves=False)
            for job in session.scalars(select(Job).where(Job.seed == 1)):
                heads = job.config.get("model.routing_heads") if job.config["model.residual"] == "mhar" else 0
                key = f"jobs/{job.id}/training_loss.npy"
                session.add(Artifact(key=key, job_id=job.id, kind="curve", step=3, sha256="", created=START))
                losses = np.array([5.0, 4.0, 3.0], np.float32) - np.float32(heads / 8)
                buffer = io.BytesIO()
                np.save(buffer, losses)
                files[key] = buffer.getvalue()
        with store.read() as session:
            yield session, files
        store.close()


def test_the_distance_of_a_pair_is_read_from_what_ended_jobs_left(
    kept: tuple[Session, dict[str, bytes]],
) -> None:
    session, files = kept
    query = {"tab": "curves", "y": "pair", "seed": "1"}
    (figure,) = sweep_page(session, "head-count", query, read=files.get).figures
    drawn = {t["name"]: t["y"] for t in figure.drawn["data"]}
    assert drawn == {
        "H\u00a01": [0.125] * 3,
        "H\u00a02": [0.25] * 3,
        "H\u00a04": [0.5] * 3,
        "batch noise of the control": [1.0, 1.0],
    }
    (other,) = sweep_page(session, "head-count", query | {"seed": "0"}, read=files.get).figures
    assert "H\u00a04 (no losses of an ended pair at seed 0)" in other.caption
    (gone,) = sweep_page(session, "head-count", query).figures
    assert gone.drawn["layout"]["annotations"][0]["text"].startswith("No result yet<br>")

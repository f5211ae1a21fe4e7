"""What the heads of a cell read is the mean over its jobs that told it."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import START, build_sweep
from sqlalchemy import select

from headcount.api.results import NotFoundError
from headcount.api.results.head_reads import head_reads
from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.models import Artifact, Job, SweepJob


def line(step: int, **heads: Any) -> dict[str, Any]:
    return {"step": step, "entropy": [0.0, 0.5], "top_source": [0, 1], **heads}


def told(first: float, entropy: float) -> dict[str, Any]:
    """Two sites of two heads, of which head 0 of site 1 weighs the oldest source by `first`."""
    weights = [[[1.0], [1.0]], [[first, 1 - first], [0.5, 0.5]]]
    return line(400, head_entropy=[[0.0, 0.0], [entropy, 0.7]], head_weights=weights)


LINES = {
    0: [line(0), told(0.25, 0.5)],
    1: [line(0), told(0.75, 0.6)],
    2: [line(0), line(400)],  # kept before heads were told apart
}


def test_it_is_the_mean_over_the_jobs_that_told(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'headcount.db'}")
    files, cell = {}, 0
    with store.write() as session:
        build_sweep(session, heads=(1, 2), kv_heads=(1,), seeds=(0, 1, 2, 3), curves=False)
        jobs = (
            select(SweepJob.cell_id, Job)
            .join(Job, Job.id == SweepJob.job_id)
            .where(Job.config["model.routing_heads"].as_integer() == 2)
        )
        for of_cell, job in session.execute(jobs):
            cell = of_cell
            key = f"jobs/{job.id}/routing.jsonl"
            session.add(Artifact(key=key, job_id=job.id, kind="routing", step=4, sha256="", created=START))
            if job.seed in LINES:  # that of seed 3 is gone
                files[key] = "".join(json.dumps(line) + "\n" for line in LINES[job.seed]).encode()
    with store.read() as session:
        found = head_reads(session, "head-count", cell, files.get)
        assert found is not None
        assert found.seeds == (0, 1)
        assert [site.tolist() for site in found.entropy] == [[0.0, 0.0], pytest.approx([0.55, 0.7])]
        assert [site.tolist() for site in found.weights] == [[[1.0], [1.0]], [[0.5, 0.5], [0.5, 0.5]]]
        assert head_reads(session, "head-count", cell - 1, files.get) is None
        with pytest.raises(NotFoundError, match="did you mean 'head-count'"):
            head_reads(session, "head-cont", cell, files.get)
    store.close()

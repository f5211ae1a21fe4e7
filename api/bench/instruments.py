"""A filled sweep over streams and widths, and what instruments found of its jobs: for the tables of these."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import bindparam, select, update
from sqlalchemy.orm import Session

from headcount.api.bench.filling import CREATED, FINGERPRINT, KV_HEADS, STEPS, Size, fill, write_rows
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import (
    Cell,
    Evaluation,
    Job,
    Measurement,
    Sweep,
    SweepInstrument,
    SweepJob,
)

SIZE = Size("instruments", 8, 5)
STREAMS = ("mhar", "mhar_hw")
HEADS = (1, 4)
SITES = 25
"""Of 12 layers, and the one before the head."""
WINDOWS = 64
PROBED = ("disagreement", "null", "excess", "collinearity", "replication", "cross_head", "entropy")
TASKS = ("lambada.acc", "hellaswag.acc_norm", "arc_easy.acc")


def fill_instruments(store: Store, size: Size = SIZE) -> None:
    """Write one sweep: the jobs of `fill`, told as of two streams, two heads and a width a learning rate."""
    fill(store, size)
    rng = np.random.default_rng(1)
    with store.write() as session:
        sweep = session.scalars(select(Sweep).where(Sweep.name == size.name)).one()
        widths = {rate: 256 * (place + 1) for place, rate in enumerate(sweep.axes["train.peak_lr"])}
        sweep.axes = {
            "model.residual": list(STREAMS),
            "model.routing_heads": list(HEADS),
            "model.kv_heads": list(KV_HEADS),
            "model.d_model": list(widths.values()),
        }
        sweep.analysis = {}
        for cell in session.scalars(select(Cell).where(Cell.sweep_id == sweep.id)):
            cell.settings = _settings(cell.settings, widths)
        jobs = session.execute(
            select(Job.id, Job.seed, Job.tail_mean, Cell.is_control, Cell.settings)
            .join(SweepJob, SweepJob.job_id == Job.id)
            .join(Cell, Cell.id == SweepJob.cell_id)
            .where(SweepJob.sweep_id == sweep.id)
        ).all()
        _grow(session, jobs)
        routed = [job for job in jobs if not job.is_control]
        children = [_child("evaluate", job.id, job.seed) for job in jobs]
        children += [_child("probe", job.id, job.seed) for job in routed]
        write_rows(session, Job, iter(children))
        wishes = ({"sweep_id": sweep.id, "job_id": child["id"], "wanted": True} for child in children)
        write_rows(session, SweepInstrument, wishes)
        write_rows(session, Measurement, (row for job in routed for row in _routing(job.id, rng)))
        write_rows(session, Measurement, (row for child in children for row in _found(child, rng)))
        session.connection().execute(
            update(Evaluation.__table__)  # type: ignore[arg-type]
            .where(Evaluation.job_id == bindparam("job"), Evaluation.step == STEPS)
            .values(window_losses=bindparam("windows")),
            [{"job": j.id, "windows": (j.tail_mean + rng.normal(0, 0.1, WINDOWS)).tolist()} for j in jobs],
        )


def _settings(settings: dict[str, Any], widths: dict[float, int]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if heads := settings.get("model.routing_heads"):
        place = (1, 2, 4, 8).index(heads)
        told = {"model.residual": STREAMS[place % 2], "model.routing_heads": HEADS[place // 2]}
    rest = {"model.kv_heads": settings["model.kv_heads"], "model.d_model": widths[settings["train.peak_lr"]]}
    return told | rest


def _grow(session: Session, jobs: Sequence[Any]) -> None:
    """Let a job cost and last what its width does, and its loss fall with it, as a law of scaling says."""
    rows = []
    for job in jobs:
        times = job.settings["model.d_model"] / 256
        rows.append({"job": job.id, "times": times**2, "gain": 0.5 * (times**-0.5 - 1)})
    connection = session.connection()
    of_job: Any = Job.__table__.c.id == bindparam("job")
    cost = {"flops": Job.flops * bindparam("times"), "tail_mean": Job.tail_mean + bindparam("gain")}
    connection.execute(update(Job.__table__).where(of_job).values(**cost), rows)  # type: ignore[arg-type]
    speed: Any = update(Measurement.__table__).where(  # type: ignore[arg-type]
        Measurement.job_id == bindparam("job"), Measurement.name == "tokens_per_second"
    )
    connection.execute(speed.values(value=Measurement.value / bindparam("times")), rows)
    told: Any = update(Evaluation.__table__).where(Evaluation.job_id == bindparam("job"))  # type: ignore[arg-type]
    connection.execute(told.values(loss=Evaluation.loss + bindparam("gain")), rows)


def _child(kind: str, parent: str, seed: int) -> dict[str, Any]:
    return {
        "id": hashlib.sha256(f"{kind} {parent}".encode()).hexdigest(),
        "kind": kind,
        "parent_id": parent,
        "config": {},
        "seed": seed,
        "fingerprint": FINGERPRINT,
        "numerics": 1,
        "parameters": 0,
        "flops": 0.0,
        "state": "finished",
        "created": CREATED,
        "ended": CREATED,
    }


def _routing(job: str, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    entropies = rng.uniform(0.5, 2.5, SITES).tolist()
    yield {"job_id": job, "name": "routing_entropy", "value": sum(entropies) / SITES}
    for site, entropy in enumerate(entropies):
        yield {"job_id": job, "name": f"routing_entropy.{site}", "value": entropy}
        top = float(site // 2 if rng.uniform() < 0.9 else rng.integers(0, site + 1))
        yield {"job_id": job, "name": f"routing_top_source.{site}", "value": top}


def _found(child: dict[str, Any], rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    names = [f"probe.{name}" for name in PROBED]
    if child["kind"] == "evaluate":
        names = [f"downstream.{task}{end}" for task in TASKS for end in ("", ".stderr")]
    for name in names:
        yield {"job_id": child["id"], "name": name, "value": float(rng.uniform(0.2, 0.4))}

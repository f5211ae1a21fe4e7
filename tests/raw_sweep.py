"""Sweeps over any axes, written straight into the tables: cells with losses by seed, and measurements."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import insert
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import Cell, Job, Measurement, Sweep, SweepJob

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)


class RawCell(NamedTuple):
    """One cell as it is written."""

    settings: dict[str, Any]
    losses: Mapping[int, float]
    """By seed."""
    control: int | None = None
    """Its place among the cells; none for a control."""


def write_sweep(
    session: Session, name: str, axes: Mapping[str, Sequence[Any]], cells: Sequence[RawCell]
) -> list[dict[int, str]]:
    """Write finished jobs; their ids by cell and seed."""
    seeds = sorted({seed for cell in cells for seed in cell.losses})
    shared = {"description": "", "yaml": "", "analysis": {}, "owner": "tester", "created": MOMENT}
    sweep = Sweep(name=name, axes={k: list(v) for k, v in axes.items()}, seeds=seeds, version=1, **shared)
    session.add(sweep)
    session.flush()
    rows = [
        Cell(sweep_id=sweep.id, position=i, settings=cell.settings, is_control=cell.control is None)
        for i, cell in enumerate(cells)
    ]
    session.add_all(rows)
    session.flush()
    ids = [{seed: _id(name, i, seed) for seed in cell.losses} for i, cell in enumerate(cells)]
    for i, (cell, row) in enumerate(zip(cells, rows, strict=True)):
        row.control_id = None if cell.control is None else rows[cell.control].id
        for seed, loss in cell.losses.items():
            add_job(session, ids[i][seed], seed, loss, config=cell.settings)
            paired = None if cell.control is None else ids[cell.control].get(seed)
            session.add(
                SweepJob(
                    sweep_id=sweep.id,
                    job_id=ids[i][seed],
                    cell_id=row.id,
                    control_job_id=paired,
                    position=0,
                )
            )
    session.flush()
    return ids


def add_job(
    session: Session,
    job_id: str,
    seed: int,
    loss: float | None,
    *,
    config: Mapping[str, Any],
    kind: str = "train",
    parent: str | None = None,
    ended: datetime = MOMENT,
) -> None:
    """Write a finished job of any kind."""
    session.add(
        Job(
            id=job_id,
            kind=kind,
            parent_id=parent,
            config=dict(config),
            seed=seed,
            fingerprint="f" * 64,
            numerics=1,
            parameters=1000,
            flops=1e9,
            state="finished",
            tail_mean=loss,
            created=MOMENT,
            ended=ended,
        )
    )
    session.flush()


def measure(session: Session, job_id: str, values: Mapping[str, float | None]) -> None:
    """Write measurements of a job."""
    session.execute(
        insert(Measurement), [{"job_id": job_id, "name": n, "value": v} for n, v in values.items()]
    )


def _id(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()

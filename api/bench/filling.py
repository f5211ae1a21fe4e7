"""A store full of results without training: head-count sweeps of any size, written straight into the tables.

Losses follow a U over log₂ H, plus an effect of the seed and noise; all seeded, so that two fills are equal.
"""

import hashlib
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
from sqlalchemy import insert, select, text
from sqlalchemy.orm import Session

from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import (
    Attempt,
    Base,
    Cell,
    Dataset,
    Evaluation,
    Event,
    Job,
    Measurement,
    Sweep,
    SweepJob,
)
from headcount.trainer.config import fields_of, job_from_fields

HEADS: tuple[int | None, ...] = (None, 1, 2, 4, 8)
"""None for the control."""
KV_HEADS = (1, 2, 4, 8, 16)
STEPS = 20_000
EVERY = 500
FINGERPRINT = hashlib.sha256(b"headcount bench api").hexdigest()
CREATED = datetime(2026, 1, 1, tzinfo=UTC)

_ENVIRONMENTS = [
    {"device": device, "torch": "2.11.0", "threads": 1, "micro_batch": 16, "compile": True}
    for device in ("NVIDIA H200", "NVIDIA A100")
]


@dataclass(frozen=True)
class Size:
    """Of one sweep: 25 cells for each learning rate."""

    name: str
    rates: int
    seeds: int

    @property
    def jobs(self) -> int:
        return len(HEADS) * len(KV_HEADS) * self.rates * self.seeds


def fill(store: Store, size: Size) -> None:
    """Write one sweep whose jobs are all finished, each with 40 evaluations."""
    rates = np.geomspace(1e-4, 3e-3, size.rates).round(8).tolist()
    with store.write() as session:
        if session.get(Dataset, FINGERPRINT) is None:
            session.add(Dataset(fingerprint=FINGERPRINT, name="bench", manifest={}, created=CREATED))
        sweep = _sweep(session, size, rates)
        cells = _cells(session, sweep.id, rates)
        keys = list(itertools.product(range(size.seeds), cells))
        ids = [_job_id(size.name, seed, cell.id) for seed, cell in keys]
        by_key = {(seed, cell.id): job for (seed, cell), job in zip(keys, ids, strict=True)}
        losses = _losses(keys)
        write_rows(session, Job, (_job(*row) for row in zip(ids, keys, losses, strict=True)))
        write_rows(
            session,
            SweepJob,
            (
                {
                    "sweep_id": sweep.id,
                    "job_id": job,
                    "cell_id": cell.id,
                    "control_job_id": by_key.get((seed, cell.control_id or 0)),
                    "position": position,
                }
                for position, (job, (seed, cell)) in enumerate(zip(ids, keys, strict=True))
            ),
        )
        write_rows(session, Attempt, (_attempt(job, i) for i, job in enumerate(ids)))
        write_rows(session, Measurement, (m for i, job in enumerate(ids) for m in _measurements(job, i)))
        write_rows(session, Event, (_event(sweep.id, job) for job in ids))
        _evaluations(session, sweep.id, ids, losses)


def analyze(store: Store) -> None:
    """What autovacuum sees to in a store in use: the planner's statistics, and which pages all can see."""
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def _sweep(session: Session, size: Size, rates: list[float]) -> Sweep:
    sweep = Sweep(
        name=size.name,
        description="Filled for a benchmark.",
        yaml=f"name: {size.name}\n",
        axes={
            "model.routing_heads": [h for h in HEADS if h],
            "model.kv_heads": list(KV_HEADS),
            "train.peak_lr": rates,
        },
        seeds=list(range(size.seeds)),
        analysis={"axis": "model.routing_heads", "ends": [1, 8], "middle": [4], "flat_margin": 0.005},
        owner="bench",
        version=1,
        created=CREATED,
    )
    session.add(sweep)
    session.flush()
    return sweep


def _cells(session: Session, sweep: int, rates: list[float]) -> list[Cell]:
    """The controls first, then the treatments paired with them."""
    shared = list(itertools.product(KV_HEADS, rates))
    controls = {
        (kv, rate): Cell(settings={"model.kv_heads": kv, "train.peak_lr": rate}, is_control=True)
        for kv, rate in shared
    }
    cells = list(controls.values())
    for position, cell in enumerate(cells):
        cell.sweep_id, cell.position = sweep, position
    session.add_all(cells)
    session.flush()
    for heads, (kv, rate) in itertools.product(HEADS[1:], shared):
        settings = {"model.routing_heads": heads, "model.kv_heads": kv, "train.peak_lr": rate}
        cells.append(
            Cell(
                sweep_id=sweep,
                position=len(cells),
                settings=settings,
                is_control=False,
                control_id=controls[kv, rate].id,
            )
        )
    session.add_all(cells)
    session.flush()
    return cells


def _job_id(sweep: str, seed: int, cell: int) -> str:
    return hashlib.sha256(f"{sweep} {seed} {cell}".encode()).hexdigest()


def _losses(keys: Sequence[tuple[int, Cell]]) -> np.ndarray:
    """(jobs, evaluations), nats."""
    rng = np.random.default_rng(0)
    heads = np.array([cell.settings.get("model.routing_heads") or 64 for _, cell in keys])
    kv_heads = np.array([cell.settings["model.kv_heads"] for _, cell in keys])
    rates = np.array([cell.settings["train.peak_lr"] for _, cell in keys])
    seeds = np.array([seed for seed, _ in keys])
    level = 3.4 + 0.01 * (np.log2(heads) - 2) ** 2 - 0.02 * np.log2(kv_heads)
    level += 0.05 * (np.log10(rates) + 3) ** 2 + 0.01 * rng.normal(size=seeds.max() + 1)[seeds]
    level += rng.normal(0, 0.003, len(keys))
    steps = np.arange(EVERY, STEPS + 1, EVERY)
    noise = rng.normal(0, 0.0005, (len(keys), len(steps)))
    return np.asarray(level[:, None] + 2 * np.exp(-steps / 3000) + noise)


_BASE = {"model.d_model": 256, "model.heads": 16, "train.steps": STEPS}


def _job(job_id: str, key: tuple[int, Cell], losses: np.ndarray) -> dict[str, Any]:
    seed, cell = key
    stream = {} if cell.is_control else {"model.residual": "mhar"}
    config = fields_of(job_from_fields({**_BASE, **stream, **cell.settings}))
    plain = {k: list(v) if isinstance(v, tuple) else v for k, v in config.items()}
    return {
        "id": job_id,
        "config": plain | {"seed": seed},
        "seed": seed,
        "fingerprint": FINGERPRINT,
        "numerics": 1,
        "parameters": 8_000_000 if cell.is_control else 8_002_560,
        "flops": 2.5e15,
        "state": "finished",
        "step": STEPS,
        "tail_mean": float(losses[-11:].mean()),
        "created": CREATED,
        "ended": CREATED,
    }


def _attempt(job_id: str, index: int) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "number": 1,
        "epoch": 1,
        "slot": f"slot-{index % 16}",
        "node": "bench",
        "start_step": 0,
        "environment": _ENVIRONMENTS[index % 50 == 0],
        "started": CREATED,
        "ended": CREATED,
        "cause": "finished",
    }


def _measurements(job_id: str, index: int) -> Iterator[dict[str, Any]]:
    yield {"job_id": job_id, "name": "tokens_per_second", "value": 1e5 + index % 97}
    yield {"job_id": job_id, "name": "peak_memory_bytes", "value": 4e9 + index % 89}
    yield {"job_id": job_id, "name": "wall_seconds", "value": 3600.0}


def _event(sweep: int, job_id: str) -> dict[str, Any]:
    detail = {"state": "finished", "cause": "finished", "attempt": 1}
    return {"sweep_id": sweep, "job_id": job_id, "kind": "settled", "detail": detail, "created": CREATED}


def write_rows(session: Session, table: type[Base], rows: Iterator[dict[str, Any]]) -> None:
    """Rows of one table, in batches."""
    while batch := list(itertools.islice(rows, 2000)):
        session.execute(insert(table), batch)


def _evaluations(session: Session, sweep: int, ids: Sequence[str], losses: np.ndarray) -> None:
    """The many rows, by the driver's fast way."""
    of_sweep = select(Attempt.job_id, Attempt.id).join(SweepJob, SweepJob.job_id == Attempt.job_id)
    attempts = dict(session.execute(of_sweep.where(SweepJob.sweep_id == sweep)).all())
    steps = range(EVERY, STEPS + 1, EVERY)
    rows = (
        (job, step, attempts[job], loss)
        for i, job in enumerate(ids)
        for step, loss in zip(steps, losses[i].tolist(), strict=True)
    )
    columns = "job_id, step, attempt_id, loss"
    driver: Any = session.connection().connection.driver_connection
    table = Evaluation.__tablename__
    if session.get_bind().dialect.name == "sqlite":
        driver.executemany(f"INSERT INTO {table} ({columns}) VALUES (?, ?, ?, ?)", rows)
        return
    with driver.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)

"""A store full of results without training: a head-count sweep written straight into the tables.

Losses follow a U over log₂ H, lowest at H = 8, plus an effect of the seed and noise, all seeded.
"""

import hashlib
import itertools
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from headcount.orchestrator.store.models import (
    Attempt,
    Base,
    Cell,
    Dataset,
    Evaluation,
    Event,
    Job,
    Measurement,
    Progress,
    Sweep,
    SweepJob,
)
from headcount.trainer.config import fields_of, job_from_fields

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FINGERPRINT = hashlib.sha256(b"synthetic text").hexdigest()
CONTROL = None
STEPS = 400
"""An evaluation each 10 steps, so that the tail is the last 11 of 41, as in a full training job."""
ENVIRONMENT = {"device": "cpu", "threads": 1, "torch": "2.11.0", "micro_batch": 8}

JobKey = tuple[int | None, int, float, int]
"""Routing heads (`CONTROL` for the control), KV heads, peak learning rate, seed."""


def build_sweep(
    session: Session,
    name: str = "head-count",
    *,
    heads: Sequence[int] = (1, 2, 4, 8, 16),
    kv_heads: Sequence[int] = (1, 2, 4),
    rates: Sequence[float] = (1e-3,),
    seeds: Sequence[int] = (0, 1, 2),
    states: Mapping[JobKey, str] = {},
    missing: Sequence[JobKey] = (),
    curves: bool = True,
    random: int = 0,
) -> int:
    """Write one sweep with its controls and return its id. Every job is finished unless in `states`.

    The jobs of `missing` are not planned at all. `curves=False` leaves evaluations and progress out: tables
    need only the stored tail means.
    """
    rng = np.random.default_rng(random)
    axes = {"model.routing_heads": heads, "model.kv_heads": kv_heads, "train.peak_lr": rates}
    sweep = Sweep(
        name=name,
        description="Where is the best number of routing heads?",
        yaml=f"name: {name}\n",
        axes={axis: list(values) for axis, values in axes.items()},
        seeds=list(seeds),
        analysis={
            "axis": "model.routing_heads",
            "ends": [heads[0], heads[-1]],
            "middle": [h for h in heads[1:-1] if h in (4, 8)] or [heads[len(heads) // 2]],
            "flat_margin": 0.005,
            "alpha": 0.05,
        },
        owner="tester",
        version=9,
        results_version=7,
        created=START,
    )
    session.add(sweep)
    if session.get(Dataset, FINGERPRINT) is None:
        session.add(
            Dataset(fingerprint=FINGERPRINT, name="synthetic", manifest={"bytes": 1000}, created=START)
        )
    session.flush()
    controls = {setting: _cell(sweep.id, CONTROL, *setting) for setting in itertools.product(kv_heads, rates)}
    session.add_all(controls.values())
    session.flush()
    treatments = {
        (h, kv, rate): _cell(sweep.id, h, kv, rate, controls[kv, rate].id)
        for h, kv, rate in itertools.product(heads, kv_heads, rates)
    }
    session.add_all(treatments.values())
    cells = {(CONTROL, *setting): cell for setting, cell in controls.items()} | treatments
    for position, cell in enumerate(cells.values()):
        cell.position = position
    session.flush()

    seed_effect = dict(zip(seeds, rng.normal(0, 0.01, len(seeds)), strict=True))
    keys = [(*setting, seed) for seed in seeds for setting in cells if (*setting, seed) not in missing]
    ids = {key: _job_id(_config(*key)) for key in keys}
    settled = [key for key in keys if states.get(key, "finished") in ("finished", "diverged", "failed")]
    ran = [*settled, *(k for k in keys if states.get(k) in ("running", "cancelling"))]
    losses = {key: _curve(key, seed_effect[key[3]], rng) for key in ran}
    tails = {
        key: float(np.mean(losses[key][-11:])) for key in settled if states.get(key, "finished") == "finished"
    }
    _insert(
        session,
        Job,
        [
            _job(ids[key], key, states.get(key, "finished"), tails.get(key), position)
            for position, key in enumerate(keys)
        ],
    )
    _insert(
        session,
        SweepJob,
        [
            {
                "sweep_id": sweep.id,
                "job_id": ids[key],
                "cell_id": cells[key[:3]].id,
                "control_job_id": ids.get((CONTROL, *key[1:])) if key[0] is not CONTROL else None,
                "position": position,
            }
            for position, key in enumerate(keys)
        ],
    )
    _attempts(session, sweep.id, [(ids[key], states.get(key, "finished")) for key in ran])
    if curves:
        _curves(session, {ids[key]: (losses[key], states.get(key, "finished")) for key in ran})
    return sweep.id


def _cell(sweep: int, heads: int | None, kv_heads: int, rate: float, control: int | None = None) -> Cell:
    settings: dict[str, Any] = {"model.routing_heads": heads} if heads is not CONTROL else {}
    settings |= {"model.kv_heads": kv_heads, "train.peak_lr": rate}
    return Cell(
        sweep_id=sweep, position=0, settings=settings, is_control=heads is CONTROL, control_id=control
    )


def _config(heads: int | None, kv_heads: int, rate: float, seed: int) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "model.d_model": 256,
        "model.heads": 16,
        "model.kv_heads": kv_heads,
        "train.steps": STEPS,
        "train.peak_lr": rate,
    }
    if heads is not CONTROL:
        fields |= {"model.residual": "mhar", "model.routing_heads": heads}
    return fields_of(job_from_fields(fields)) | {"seed": seed, "data.text": []}


def _job_id(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps([config, FINGERPRINT], sort_keys=True).encode()).hexdigest()


def _curve(key: JobKey, seed_effect: float, rng: np.random.Generator) -> np.ndarray:
    heads, kv_heads, rate, _ = key
    routing = 0.03 if heads is CONTROL else 0.01 * (np.log2(heads) - 3) ** 2 - 0.02
    level = 3.4 + routing - 0.02 * np.log2(kv_heads) + 0.05 * (np.log10(rate) + 3) ** 2 + seed_effect
    steps = np.arange(0, STEPS + 1, 10)
    return level + rng.normal(0, 0.002) + 2 * np.exp(-steps / 60) + rng.normal(0, 0.0005, len(steps))


def _job(job_id: str, key: JobKey, state: str, tail_mean: float | None, position: int) -> dict[str, Any]:
    settled = state not in ("queued", "running", "cancelling")
    return {
        "id": job_id,
        "config": _config(*key),
        "seed": key[3],
        "fingerprint": FINGERPRINT,
        "numerics": 1,
        "parameters": 1_000_000 + (2560 if key[0] is not CONTROL else 0),
        "flops": 2.5e12,
        "state": state,
        "step": {"finished": STEPS, "queued": 0, "diverged": 120, "failed": 200}.get(state, 200),
        "tail_mean": tail_mean,
        "diverged_step": 120 if state == "diverged" else None,
        "created": START,
        "ended": START + timedelta(seconds=10 * position + 10) if settled else None,
    }


def _insert(session: Session, table: type[Base], rows: list[dict[str, Any]]) -> None:
    if rows:
        session.execute(insert(table), rows)


def _attempts(session: Session, sweep: int, jobs: Sequence[tuple[str, str]]) -> None:
    causes = {"finished": "finished", "diverged": "diverged", "failed": "user_error"}
    _insert(
        session,
        Attempt,
        [
            {
                "job_id": job_id,
                "number": 1,
                "epoch": 1,
                "slot": "slot-0",
                "node": "node-a",
                "start_step": 0,
                "environment": ENVIRONMENT,
                "started": START + timedelta(seconds=10 * i),
                "ended": START + timedelta(seconds=10 * i + 10) if state in causes else None,
                "cause": causes.get(state),
                "message": "ValueError: no text" if state == "failed" else None,
            }
            for i, (job_id, state) in enumerate(jobs)
        ],
    )
    _insert(
        session,
        Event,
        [{"sweep_id": sweep, "job_id": None, "kind": "submitted", "detail": {}, "created": START}]
        + [
            {
                "sweep_id": sweep,
                "job_id": job_id,
                "kind": "settled" if state in causes else "dispatched",
                "detail": {"state": state},
                "created": START + timedelta(seconds=10 * i + 10),
            }
            for i, (job_id, state) in enumerate(jobs)
        ],
    )
    _insert(
        session,
        Measurement,
        [{"job_id": job_id, "name": "tokens_per_second", "value": 1e5} for job_id, _ in jobs],
    )


def _curves(session: Session, jobs: Mapping[str, tuple[np.ndarray, str]]) -> None:
    attempts = {job_id: attempt for attempt, job_id in session.query(Attempt.id, Attempt.job_id)}
    evaluations, progress = [], []
    for job_id, (losses, state) in jobs.items():
        last = {"finished": STEPS, "diverged": 120}.get(state, 200)
        for index, loss in enumerate(losses[: last // 10 + 1].tolist()):
            at = {"job_id": job_id, "step": 10 * index, "attempt_id": attempts[job_id]}
            lost = state == "diverged" and at["step"] == last
            evaluations.append(at | {"loss": None if lost else loss})
            if at["step"]:
                progress.append(
                    at
                    | {
                        "loss": None if lost else loss + 0.05,
                        "learning_rate": 1e-3,
                        "gradient_norm": None if lost else 0.5,
                        "tokens_per_second": 1e5,
                    }
                )
    _insert(session, Evaluation, evaluations)
    _insert(session, Progress, progress)

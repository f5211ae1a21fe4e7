"""What each cell of a sweep cost: arithmetic, speed, memory, and in which environments its jobs trained."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import from_json
from sqlalchemy import Connection, Engine, Select, Text, and_, bindparam, cast, func, select, true
from sqlalchemy.orm import Session

from headcount.api.results.cells import CellView
from headcount.orchestrator.store.models import Attempt, Job, Measurement, SweepJob
from headcount.trainer.tail import evaluation_count

REPEATS = ("repeat.same", "repeat.micro_batch")
"""The tail mean of a job that was trained again minus the stored one, nats: in the same environment, or with
another micro-batch."""

MEASURED = ("tokens_per_second", "peak_memory_bytes", *REPEATS)


@dataclass
class CellCosts:
    """Of one cell; what no job of it tells is None."""

    flops_per_token: float | None = None
    """Forward and backward, of one training token."""
    tokens: int | None = None
    """That one of its jobs trains on."""
    tokens_per_second: float | None = None
    """Mean over the cell's jobs."""
    timed_jobs: int = 0
    """That this mean is over."""
    peak_memory_bytes: float | None = None
    """The largest of the cell's jobs."""
    repeats: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By name of `REPEATS`, how many jobs were trained again, and the sum of their squared differences."""
    environments: dict[int, set[tuple[str, str | None]]] = field(default_factory=dict)
    """Seed to the environments that its result comes from, each with its implementation of depth routing,
    which a control without routing has none of."""


_SWEEP = SweepJob.sweep_id == bindparam("sweep")
_ONE = select(SweepJob.cell_id, func.min(SweepJob.job_id).label("job_id")).where(_SWEEP)
_ONE_OF_CELL = _ONE.group_by(SweepJob.cell_id).subquery()
# the whole configuration as text: PostgreSQL would read it again for each field asked for
_CONFIGS = select(_ONE_OF_CELL.c.cell_id, cast(Job.config, Text))
_CONFIGS = _CONFIGS.join(_ONE_OF_CELL, _ONE_OF_CELL.c.job_id == Job.id)


def _by_cell(name: Any, value: Any) -> "Select[Any]":
    told = select(
        SweepJob.cell_id, name, func.avg(value), func.max(value), func.count(), func.sum(value * value)
    )
    return told.where(_SWEEP).group_by(SweepJob.cell_id, name)


_WANTED = (
    Measurement.job_id == SweepJob.job_id,
    Measurement.name.in_(MEASURED),
    Measurement.value.between(-sys.float_info.max, sys.float_info.max),
)
_MEASURED = _by_cell(Measurement.name, Measurement.value).join(Measurement, and_(*_WANTED))
# with an offset PostgreSQL keeps to it, job by job: by its plan for any parameters, which it turns to after a
# few questions, it would go through these measurements of all sweeps
_OF_JOB = select(Measurement.name, Measurement.value).where(*_WANTED).offset(0).correlate(SweepJob).lateral()
_MEASURED_BY_JOB = _by_cell(_OF_JOB.c.name, _OF_JOB.c.value).join(_OF_JOB, true())
_TRAINED = select(Attempt.job_id, Attempt.number, Attempt.start_step, cast(Attempt.environment, Text))
_TRAINED = _TRAINED.join(SweepJob, SweepJob.job_id == Attempt.job_id)
_TRAINED = _TRAINED.where(_SWEEP, Attempt.environment.is_not(None))


def cell_costs(session: Session, sweep_id: int, cells: Sequence[CellView]) -> dict[int, CellCosts]:
    """The costs of every one of the sweep's `cells` that has a job."""
    connection, named = session.connection(), {"sweep": sweep_id}  # columns alone come faster than entities
    costs: dict[int, CellCosts] = {}
    cells = [cell for cell in cells if cell.results]
    for cell, sizes in zip(cells, _sizes_of(connection, sweep_id, cells), strict=True):
        steps, batch_tokens, *_ = sizes
        tokens = steps * batch_tokens if steps and batch_tokens else None
        costs[cell.id] = CellCosts(flops_per_token=_per_token(cell.flops, *sizes), tokens=tokens)
    measured = _MEASURED if connection.dialect.name == "sqlite" else _MEASURED_BY_JOB
    figures: Any = connection.execute(measured, named)
    for cell_id, name, mean, most, jobs, squares in figures.all():
        if name == "tokens_per_second":
            costs[cell_id].tokens_per_second, costs[cell_id].timed_jobs = mean, jobs
        elif name == "peak_memory_bytes":
            costs[cell_id].peak_memory_bytes = most
        else:
            costs[cell_id].repeats[name] = (jobs, squares)
    trained: dict[str, list[_Stretch]] = {}
    for job_id, number, start, environment in connection.execute(_TRAINED, named).all():
        if environment != "null":
            trained.setdefault(job_id, []).append((number, start or 0, environment))
    for cell in cells:
        for result in cell.results:
            if stretches := trained.get(result.job_id):
                costs[cell.id].environments[result.seed] = _environments(stretches)
    return costs


_Stretch = tuple[int, int, str]
"""The number of an attempt, the step that it began at, and its environment as JSON."""


def _environments(stretches: list[_Stretch]) -> set[tuple[str, str | None]]:
    """Without those of attempts of which nothing is left: a later one began where they did, or before."""
    if len(stretches) == 1:
        return {_without_routing(stretches[0][2])}
    found, kept_before = set(), inf
    for _, start, environment in sorted(stretches, reverse=True):
        if start < kept_before:
            found.add(_without_routing(environment))
            kept_before = start
    return found


@lru_cache(maxsize=1024)
def _without_routing(environment: str) -> tuple[str, str | None]:
    known = json.loads(environment)
    routing = known.pop("routing", None)
    known.pop("routing_launch", None)
    return json.dumps(known, sort_keys=True), routing


_SIZES = ("train.steps", "train.batch_tokens", "train.eval_every", "train.eval_windows", "data.context")
"""The fields that say how many tokens a job reads."""

_Sizes = tuple[int | None, ...]

_KNOWN: WeakKeyDictionary[Engine, dict[str, _Sizes]] = WeakKeyDictionary()
"""Of each store, job to its `_SIZES`: a job's id is the hash of its configuration, which never changes."""

_MOST_KNOWN = 100_000


def _sizes_of(connection: Connection, sweep_id: int, cells: Sequence[CellView]) -> list[_Sizes]:
    """Of each cell, by its first job. A run from elsewhere is asked again: its id is that of its losses."""
    jobs = ["" if cell.external else min(result.job_id for result in cell.results) for cell in cells]
    known = _KNOWN.setdefault(connection.engine, {})
    found = [known.get(job) for job in jobs]
    if None in found:
        configs: dict[int, str] = dict(connection.execute(_CONFIGS, {"sweep": sweep_id}).all())
        read = map(from_json, [configs[cell.id] for cell in cells])
        found = [tuple([told.get(field) for field in _SIZES]) for told in read]
        if len(known) > _MOST_KNOWN:
            known.clear()
        known.update({job: sizes for job, sizes in zip(jobs, found, strict=True) if job and sizes})
    return [sizes for sizes in found if sizes is not None]


@lru_cache(maxsize=1024)
def _per_token(flops: float | None, *sizes: int | None) -> float | None:
    """A job's FLOPs over its tokens: an evaluation is forward only, a third (`trainer.flops.job_flops`).

    None for a run from elsewhere, which does not tell its sizes.
    """
    known = [size for size in sizes if size is not None]
    if len(known) < len(_SIZES) or not flops:
        return None
    steps, batch_tokens, every, windows, context = known
    return flops / (steps * batch_tokens + evaluation_count(steps, every) * windows * context / 3)


def mixed(treatment: CellCosts | None, control: CellCosts | None, seeds: tuple[int, ...]) -> bool:
    """Whether some pair of these seeds trained in more than one environment."""
    if treatment is None or control is None:
        return False
    for seed in seeds:
        own, other = treatment.environments.get(seed, set()), control.environments.get(seed, set())
        if own == other and len(own) < 2:
            continue
        pair = own | other
        if len({environment for environment, _ in pair}) > 1 or len({r for _, r in pair if r}) > 1:
            return True
    return False

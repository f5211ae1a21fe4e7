"""The rows of a sweep of runs from elsewhere: cells, controls, and a job with one attempt for each run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.mapping import Columns
from headcount.orchestrator.exchange.rows import insert_rows
from headcount.orchestrator.exchange.runs import Run
from headcount.orchestrator.store.journal import announce_sweep, now
from headcount.orchestrator.store.models import Attempt, Base, Cell, Job, Sweep
from headcount.orchestrator.store.wishes import chunks
from headcount.trainer.errors import UserError

STEPS = "train.steps"


@dataclass(frozen=True)
class PlannedRun:
    """A run with the job that it becomes."""

    run: Run
    job_id: str
    cell: str
    is_control: bool
    steps: int
    tail_mean: float | None


def add_sweep(
    session: Session,
    name: str,
    described: dict[str, Any],
    columns: Columns,
    control: Mapping[str, Any],
    planned: list[PlannedRun],
    owner: str,
) -> None:
    """Add the sweep `name` with all its rows; `described` says where they are from.

    Raises `UserError` for a cell that more than one control would be paired with.
    """
    seeds = sorted({p.run.seed for p in planned}) if "seed" in columns.numbers else []
    document = {"name": name, "external": described}
    sweep = Sweep(
        name=name,
        description=f"Imported from {described['file']}",
        yaml=yaml.safe_dump(document, sort_keys=False, allow_unicode=True),
        axes={axis: values_of(axis, planned) for axis in columns.axes},
        seeds=seeds,
        analysis={},
        owner=owner,
        version=1,
        created=now(),
    )
    session.add(sweep)
    session.flush()
    cells = _add_cells(session, sweep.id, planned, control)
    _add_jobs(session, planned, described)
    at_seed = {(cells[p.cell].id, p.run.seed): p.job_id for p in planned}
    wishes = [
        {
            "sweep_id": sweep.id,
            "job_id": p.job_id,
            "cell_id": cells[p.cell].id,
            "control_job_id": at_seed.get((cells[p.cell].control_id or 0, p.run.seed)),
            "wanted": False,
            "paused": False,
            "priority": 0,
            "position": position,
        }
        for position, p in enumerate(planned)
    ]
    insert_rows(session, Base.metadata.tables["sweep_job"], wishes)
    announce_sweep(session, sweep.id, "imported", new=len(planned), sha256=described["sha256"])


def values_of(axis: str, planned: list[PlannedRun]) -> list[Any]:
    """An axis's values: numbers in their order, names in the file's."""
    values = list(dict.fromkeys(p.run.settings[axis] for p in planned if axis in p.run.settings))
    return sorted(values) if all(isinstance(v, int | float) for v in values) else values


def _add_cells(
    session: Session, sweep_id: int, planned: list[PlannedRun], control: Mapping[str, Any]
) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for p in planned:
        if p.cell not in cells:
            cells[p.cell] = Cell(
                sweep_id=sweep_id, position=len(cells), settings=p.run.settings, is_control=p.is_control
            )
    session.add_all(cells.values())
    session.flush()
    controls = [cell for cell in cells.values() if cell.is_control]
    for cell in cells.values():
        if not cell.is_control:
            found = [c for c in controls if _pairs(cell.settings, c.settings, control)]
            if len(found) > 1:
                raise UserError(
                    f"the cell {cell.settings} has {len(found)} controls; name more axes in --control"
                )
            cell.control_id = found[0].id if found else None
    session.flush()
    return cells


def _pairs(treatment: Mapping[str, Any], control: Mapping[str, Any], differing: Mapping[str, Any]) -> bool:
    """Whether they agree in every axis that the control has and that does not make it one."""
    return all(treatment.get(axis) == value for axis, value in control.items() if axis not in differing)


def _add_jobs(session: Session, planned: list[PlannedRun], described: dict[str, Any]) -> None:
    """Jobs that the store lacks, each with one attempt that tells where its numbers are from."""
    tables = Base.metadata.tables
    held: set[str] = set()
    for chunk in chunks([p.job_id for p in planned]):
        held |= set(session.scalars(select(Job.id).where(Job.id.in_(chunk))))
    new = [p for p in planned if p.job_id not in held]
    moment = now()
    insert_rows(session, tables["job"], (_job(p, described, moment) for p in new))
    for p in new:
        attempt = Attempt(
            job_id=p.job_id,
            number=1,
            epoch=0,
            slot="import",
            environment={
                "imported_from": described["file"],
                "sha256": described["sha256"],
                "line": p.run.first_line,
            },
            started=moment,
            ended=moment,
            cause=_state(p),
        )
        session.add(attempt)
        session.flush()
        curve = [
            {
                "job_id": p.job_id,
                "step": step,
                "attempt_id": attempt.id,
                "loss": loss if math.isfinite(loss) else None,
                "window_losses": None,
            }
            for step, loss in p.run.losses.items()
            if step is not None
        ]
        insert_rows(session, tables["evaluation"], curve)
        if "tokens_per_second" in p.run.numbers:
            measured = {"job_id": p.job_id, "name": "tokens_per_second"}
            session.execute(
                insert(tables["measurement"]), measured | {"value": p.run.numbers["tokens_per_second"]}
            )


def _state(p: PlannedRun) -> str:
    if p.run.diverged_step is not None:
        return "diverged"
    return "cancelled" if p.tail_mean is None else "finished"


def _job(p: PlannedRun, described: dict[str, Any], moment: Any) -> dict[str, Any]:
    return {
        "id": p.job_id,
        "kind": "external",
        "config": {**p.run.settings, STEPS: p.steps, "seed": p.run.seed},
        "seed": p.run.seed,
        "fingerprint": described["sha256"],
        "numerics": 0,
        "parameters": int(p.run.numbers.get("parameters", 0)),
        "flops": p.run.numbers.get("flops", 0.0),
        "state": _state(p),
        "step": p.run.last_step,
        "tail_mean": p.tail_mean,
        "diverged_step": p.run.diverged_step,
        "forgiven_attempts": 0,
        "created": moment,
        "ended": moment,
    }

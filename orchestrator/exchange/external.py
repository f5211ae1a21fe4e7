"""Runs from elsewhere as a sweep of `external` jobs, which tables and statistics treat like any other."""

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.mapping import Columns, axis_value, map_columns
from headcount.orchestrator.exchange.records import read_records
from headcount.orchestrator.exchange.rows import insert_rows
from headcount.orchestrator.exchange.runs import Run, runs_of
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.journal import announce_sweep, now
from headcount.orchestrator.store.models import Attempt, Base, Cell, Job, Sweep, SweepJob
from headcount.orchestrator.store.wishes import chunks
from headcount.trainer.errors import UserError, nearest

_STEPS = "train.steps"


@dataclass(frozen=True)
class ImportedRuns:
    """What an import of runs made."""

    sweep: str
    cells: int
    controls: int
    jobs: int
    incomplete: int
    """Runs that end before the others: kept with their curve, without a result."""
    diverged: int
    changed: bool
    """False where the sweep was there already."""
    unused: tuple[str, ...]
    """Columns that were not read."""


@dataclass(frozen=True)
class _Planned:
    """A run with the job that it becomes."""

    run: Run
    job_id: str
    cell: str
    is_control: bool
    steps: int
    tail_mean: float | None


def import_runs(
    store: Store,
    file: Path,
    name: str,
    mapping: Mapping[str, str],
    control: Mapping[str, str],
    owner: str,
) -> ImportedRuns:
    """Make the sweep `name` of the runs in a file; the same file again changes nothing.

    `mapping` is meaning to column, `control` the axis values by which a run is a control. Raises `UserError`
    that names every bad row, or for a sweep of that name with other results.
    """
    names, records = read_records(file)
    columns = map_columns(names, mapping)
    chosen = _control_values(control, columns)
    runs = list(runs_of(file, records, columns, chosen).values())
    planned = _plan(runs, chosen)
    described: dict[str, Any] = {
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "columns": columns.axes | columns.numbers,
        "control": chosen,
    }
    with store.write() as session:
        sweep = session.scalar(select(Sweep).where(Sweep.name == name))
        if sweep is None:
            _add_sweep(session, name, described, columns, chosen, planned, owner)
        else:
            _check_same(session, sweep, file, planned)
    return ImportedRuns(
        sweep=name,
        cells=len({p.cell for p in planned}),
        controls=len({p.cell for p in planned if p.is_control}),
        jobs=len(planned),
        incomplete=sum(p.tail_mean is None and p.run.diverged_step is None for p in planned),
        diverged=sum(p.run.diverged_step is not None for p in planned),
        changed=sweep is None,
        unused=columns.unused,
    )


def sweep_name(name: str, *, given: bool) -> str:
    """A name that can stand in addresses: `name` as it was given, or made of a file's. Raises `UserError`."""
    slug = name if given else re.sub(r"[^A-Za-z0-9_]+", "-", name).strip("-")[:100]
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,99}", slug):
        raise UserError(
            f"{name!r} is no name of a sweep; give --name with a letter, then letters, digits, - and _"
        )
    return slug


def _control_values(control: Mapping[str, str], columns: Columns) -> dict[str, Any]:
    chosen = {}
    for axis, value in control.items():
        if axis not in columns.axes:
            raise UserError(f"--control {axis}: not an axis of these runs; {nearest(axis, columns.axes)}")
        try:
            chosen[axis] = axis_value(axis, value)
        except ValueError as error:
            raise UserError(f"--control {error}") from error
    return chosen


def _plan(runs: list[Run], control: Mapping[str, Any]) -> list[_Planned]:
    longest = max(run.last_step for run in runs)
    planned = []
    for run in runs:
        steps = int(run.settings.get(_STEPS, longest)) if None not in run.losses else 0
        cell = json.dumps(run.settings, sort_keys=True)
        content = {"kind": "external", "settings": run.settings, "seed": run.seed, "numbers": run.numbers}
        content["losses"] = [[step, repr(loss)] for step, loss in sorted(run.losses.items(), key=str)]
        text = json.dumps(content, sort_keys=True)
        planned.append(
            _Planned(
                run=run,
                job_id=hashlib.sha256(text.encode()).hexdigest(),
                cell=cell,
                is_control=bool(control) and all(run.settings.get(a) == v for a, v in control.items()),
                steps=steps,
                tail_mean=run.reported(steps),
            )
        )
    return planned


def _check_same(session: Session, sweep: Sweep, file: Path, planned: list[_Planned]) -> None:
    held = set(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id == sweep.id)))
    if held != {p.job_id for p in planned}:
        raise UserError(
            f"{file}: the store has another sweep called {sweep.name!r}; give --name to import these runs "
            "under a name of their own"
        )


def _add_sweep(
    session: Session,
    name: str,
    described: dict[str, Any],
    columns: Columns,
    control: Mapping[str, Any],
    planned: list[_Planned],
    owner: str,
) -> None:
    seeds = sorted({p.run.seed for p in planned}) if "seed" in columns.numbers else []
    document = {"name": name, "external": described}
    sweep = Sweep(
        name=name,
        description=f"Imported from {described['file']}",
        yaml=yaml.safe_dump(document, sort_keys=False, allow_unicode=True),
        axes={axis: _values(axis, planned) for axis in columns.axes},
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


def _values(axis: str, planned: list[_Planned]) -> list[Any]:
    """An axis's values: numbers in their order, names in the file's."""
    values = list(dict.fromkeys(p.run.settings[axis] for p in planned if axis in p.run.settings))
    return sorted(values) if all(isinstance(v, int | float) for v in values) else values


def _add_cells(
    session: Session, sweep_id: int, planned: list[_Planned], control: Mapping[str, Any]
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


def _add_jobs(session: Session, planned: list[_Planned], described: dict[str, Any]) -> None:
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


def _state(p: _Planned) -> str:
    if p.run.diverged_step is not None:
        return "diverged"
    return "cancelled" if p.tail_mean is None else "finished"


def _job(p: _Planned, described: dict[str, Any], moment: Any) -> dict[str, Any]:
    return {
        "id": p.job_id,
        "kind": "external",
        "config": {**p.run.settings, _STEPS: p.steps, "seed": p.run.seed},
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

"""Runs from elsewhere as a sweep of `external` jobs, which tables and statistics treat like any other."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.orchestrator.exchange.external_rows import STEPS, PlannedRun, add_sweep, values_of
from headcount.orchestrator.exchange.mapping import control_values, map_columns
from headcount.orchestrator.exchange.records import read_records
from headcount.orchestrator.exchange.runs import Run, runs_of
from headcount.orchestrator.store import Store
from headcount.orchestrator.store.models import Sweep, SweepJob
from headcount.trainer.errors import UserError, nearest


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
    that names every bad row, for a control that no run is, or for a sweep of that name with other results.
    """
    names, records = read_records(file)
    columns = map_columns(names, mapping)
    chosen = control_values(control, columns)
    runs = list(runs_of(file, records, columns, chosen).values())
    planned = _plan(runs, chosen)
    _check_control(chosen, planned)
    described: dict[str, Any] = {
        "file": file.name,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "columns": columns.axes | columns.numbers,
        "control": chosen,
    }
    with store.write() as session:
        sweep = session.scalar(select(Sweep).where(Sweep.name == name))
        if sweep is None:
            add_sweep(session, name, described, columns, chosen, planned, owner)
        else:
            _check_same(session, sweep, file, planned, chosen)
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


def _plan(runs: list[Run], control: Mapping[str, Any]) -> list[PlannedRun]:
    longest = max(run.last_step for run in runs)
    planned = []
    for run in runs:
        steps = int(run.settings.get(STEPS, longest)) if None not in run.losses else 0
        cell = json.dumps(run.settings, sort_keys=True)
        content = {"kind": "external", "settings": run.settings, "seed": run.seed, "numbers": run.numbers}
        content["losses"] = [[step, repr(loss)] for step, loss in sorted(run.losses.items(), key=str)]
        text = json.dumps(content, sort_keys=True)
        planned.append(
            PlannedRun(
                run=run,
                job_id=hashlib.sha256(text.encode()).hexdigest(),
                cell=cell,
                is_control=bool(control) and all(run.settings.get(a) == v for a, v in control.items()),
                steps=steps,
                tail_mean=run.reported(steps),
            )
        )
    return planned


def _check_control(control: Mapping[str, Any], planned: list[PlannedRun]) -> None:
    if not control or any(p.is_control for p in planned):
        return
    for axis, value in control.items():
        values = [str(v) for v in values_of(axis, planned)]
        if str(value) not in values:
            raise UserError(f"--control {axis}={value}: no run has this value; {nearest(str(value), values)}")
    raise UserError(f"--control {_pairs_text(control)}: no run has all of these values")


def _pairs_text(control: Mapping[str, Any]) -> str:
    return ",".join(f"{axis}={value}" for axis, value in control.items())


def _check_same(
    session: Session, sweep: Sweep, file: Path, planned: list[PlannedRun], control: Mapping[str, Any]
) -> None:
    held = set(session.scalars(select(SweepJob.job_id).where(SweepJob.sweep_id == sweep.id)))
    if held != {p.job_id for p in planned}:
        raise UserError(
            f"{file}: the store has another sweep called {sweep.name!r}; give --name to import these runs "
            "under a name of their own"
        )
    earlier = yaml.safe_load(sweep.yaml)["external"]["control"]
    if earlier != control:
        was = f"--control {_pairs_text(earlier)}" if earlier else "no --control"
        raise UserError(
            f"{file}: these runs are in the store already, with {was}; 'headcount delete {sweep.name}', and "
            "import them again"
        )

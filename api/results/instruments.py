"""What instruments found of a sweep's jobs.

An instrument is a job of its own, whose parent is the training job that it looks at. What it found are
measurements, whose names say of what: `probe.excess`, `downstream.lambada.acc`, and with `.stderr` behind it
the standard error of a score over the items of its task.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.instrument_settings import difference_words, settings_of, usual
from headcount.api.results.lookup import find_sweep, sweep_id_of
from headcount.api.results.told import Told, told_by_instruments
from headcount.orchestrator.store.models import Job, Measurement, SweepInstrument, SweepJob

PROBE, DOWNSTREAM, STDERR = "probe.", "downstream.", ".stderr"

BySeed = Mapping[int, float]
"""Seed to value."""


class Figures(NamedTuple):
    """What instruments told, by name and cell."""

    told: dict[str, dict[int, dict[int, float]]]
    """By seed."""
    lost: dict[str, dict[int, tuple[int, ...]]]
    """The seeds whose job has the figure, but no finite number for it."""
    apart: dict[str, dict[int, dict[int, str]]]
    """By seed, how the settings differ from those that the others were measured with."""


def figures(session: Session, sweep: str, start: str) -> Figures:
    """Every measurement whose name starts so, of finished instruments. Raises `NotFoundError`.

    Of several that looked at one job, those that the sweep asks for count before others, and of these the
    newest.
    """
    sweep_id = sweep_id_of(session, sweep)
    behind = start[:-1] + chr(ord(start[-1]) + 1)  # both engines compare names byte by byte
    wanted = wanted_by(session, sweep_id)
    looks = told_by_instruments(session, sweep_id, start, behind)
    looks.sort(key=lambda look: look.job in wanted)
    told: defaultdict[str, defaultdict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for _, cell, seed, names, values in looks:
        for name, value in zip(names, values.tolist(), strict=True):
            told[name][cell][seed] = value
    lost: dict[str, dict[int, tuple[int, ...]]] = {}
    for name, cells in told.items():
        for cell, seeds in cells.items():
            if not all(map(isfinite, seeds.values())):
                torn = sorted(seed for seed, value in seeds.items() if not isfinite(value))
                lost.setdefault(name, {})[cell] = tuple(torn)
                for seed in torn:
                    del seeds[seed]
    known = {name: {cell: seeds for cell, seeds in cells.items() if seeds} for name, cells in told.items()}
    apart = {} if all(look.job in wanted for look in looks) else _apart(session, looks, wanted)
    return Figures({name: cells for name, cells in known.items() if cells}, lost, apart)


def wanted_by(session: Session, sweep_id: int) -> set[str]:
    """The instruments that the sweep asks for."""
    asked = select(SweepInstrument.job_id).where(SweepInstrument.sweep_id == sweep_id)
    return {row[0] for row in session.connection().execute(asked).all()}


def awaited_cells(session: Session, sweep: str, kind: str) -> set[int]:
    """Cells of which the sweep asks for an instrument of this kind that has not finished."""
    query = (
        select(SweepJob.cell_id)
        .join(SweepInstrument, SweepInstrument.sweep_id == SweepJob.sweep_id)
        .join(Job, (Job.id == SweepInstrument.job_id) & (Job.parent_id == SweepJob.job_id))
        .where(SweepJob.sweep_id == sweep_id_of(session, sweep), Job.kind == kind, Job.state != "finished")
    )
    return {row[0] for row in session.connection().execute(query).all()}


def _apart(session: Session, looks: Sequence[Told], wanted: set[str]) -> dict[str, dict[int, dict[int, str]]]:
    """As in `Figures`, of looks of which the last counts.

    What the sweep asks for has the same settings everywhere, so one of them is read.
    """
    by_name: defaultdict[str, dict[tuple[int, int], str]] = defaultdict(dict)
    for look in looks:
        for name in look.names:
            by_name[name][look.cell, look.seed] = look.job
    jobs = {job for places in by_name.values() for job in places.values()}
    own = min(jobs & wanted, default="")
    settings = settings_of(session, (jobs - wanted) | {own} - {""})
    if len(set(settings.values())) < 2:
        return {}
    settings |= dict.fromkeys(jobs & wanted, settings.get(own, frozenset()))
    found: defaultdict[str, defaultdict[int, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
    for name, places in by_name.items():
        asked = [job for job in places.values() if job in wanted]
        most = settings[asked[0]] if asked else usual(settings[job] for job in places.values())
        for (cell, seed), job in places.items():
            if settings[job] != most:
                found[name][cell][seed] = difference_words(settings[job], most)
    return {name: dict(cells) for name, cells in found.items()}


def figure(session: Session, sweep: str, name: str) -> dict[int, list[float]]:
    """What the sweep's own jobs told of one name, by cell. Raises `NotFoundError`."""
    query = (
        select(SweepJob.cell_id, Measurement.value)
        .join(Measurement, Measurement.job_id == SweepJob.job_id)
        .where(SweepJob.sweep_id == find_sweep(session, sweep).id, Measurement.name == name)
        .order_by(SweepJob.job_id)
    )
    found: defaultdict[int, list[float]] = defaultdict(list)
    for cell, value in session.connection().execute(query).all():
        if value is not None and isfinite(value):
            found[cell].append(value)
    return dict(found)

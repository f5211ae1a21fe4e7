"""What instruments found of a sweep's jobs.

An instrument is a job of its own, whose parent is the training job that it looks at. What it found are
measurements, whose names say of what: `probe.excess`, `downstream.lambada.acc`, and with `.stderr` behind it
the standard error of a score over the items of its task.
"""

from collections import defaultdict
from collections.abc import Mapping
from math import isfinite
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.results.instrument_settings import difference_words, settings_of, usual
from headcount.api.results.lookup import find_sweep, sweep_id_of
from headcount.api.results.told import told_by_instruments
from headcount.orchestrator.store.models import Measurement, SweepInstrument, SweepJob

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
    newest: _Newest = defaultdict(lambda: defaultdict(dict))
    for job, cell, seed, names, values in looks:
        for name, value in zip(names, values.tolist(), strict=True):
            newest[name][cell][seed] = (value, job)
    told: dict[str, dict[int, dict[int, float]]] = {name: {} for name in newest}
    lost: dict[str, dict[int, tuple[int, ...]]] = {}
    for name, cells in newest.items():
        for cell, seeds in cells.items():
            finite = {seed: value for seed, (value, _) in seeds.items() if isfinite(value)}
            if finite:
                told[name][cell] = finite
            if len(finite) < len(seeds):
                lost.setdefault(name, {})[cell] = tuple(sorted(seeds.keys() - finite.keys()))
    apart = _apart(session, newest, wanted) if any(look.job not in wanted for look in looks) else {}
    return Figures({name: cells for name, cells in told.items() if cells}, lost, apart)


def wanted_by(session: Session, sweep_id: int) -> set[str]:
    """The instruments that the sweep asks for."""
    asked = select(SweepInstrument.job_id).where(SweepInstrument.sweep_id == sweep_id)
    return {row[0] for row in session.connection().execute(asked).all()}


_Newest = defaultdict[str, defaultdict[int, dict[int, tuple[float, str]]]]
"""By name, cell and seed: the number, and the instrument that told it."""


def _apart(session: Session, newest: _Newest, wanted: set[str]) -> dict[str, dict[int, dict[int, str]]]:
    """As in `Figures`. What the sweep asks for has the same settings everywhere, so one of them is read."""
    chosen = {job for cells in newest.values() for seeds in cells.values() for _, job in seeds.values()}
    own = min(chosen & wanted, default="")
    settings = settings_of(session, (chosen - wanted) | {own} - {""})
    if len(set(settings.values())) < 2:
        return {}
    found: defaultdict[str, defaultdict[int, dict[int, str]]] = defaultdict(lambda: defaultdict(dict))
    for name, cells in newest.items():
        looks = [(cell, seed, job) for cell, seeds in cells.items() for seed, (_, job) in seeds.items()]
        of_looks = [settings[own if job in wanted else job] for _, _, job in looks]
        most = settings[own] if any(job in wanted for _, _, job in looks) else usual(of_looks)
        for (cell, seed, _), of_look in zip(looks, of_looks, strict=True):
            if of_look != most:
                found[name][cell][seed] = difference_words(of_look, most)
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

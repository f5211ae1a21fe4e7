"""Cells of several sweeps side by side: which are the same setting, and how far apart they are."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from headcount.api.results.lookup import find_sweep
from headcount.api.results.reference import cell_configs
from headcount.api.results.tables import AblationTable, TableRow, ablation_table
from headcount.sweeps.statistics import PairedDelta, UnpairedDelta, paired_delta, welch_delta

Config = Mapping[str, Any]


Difference = PairedDelta | UnpairedDelta
"""Paired by seed; by Welch where fewer than two seeds are in common and each row has two."""


class ComparedSweep(NamedTuple):
    """A sweep with the configuration of one job of every cell."""

    table: AblationTable
    configs: Mapping[int, Config]


@dataclass(frozen=True)
class ComparedCell:
    """One setting: a row of each sweep, None where it lacks the setting."""

    settings: dict[str, Any]
    is_control: bool
    rows: tuple[TableRow | None, ...]
    differences: tuple[Difference | None, ...]
    """Each row minus the first one; None for the first, and where a side has no mean."""


@dataclass(frozen=True)
class FieldDifference:
    """A field of the jobs that the compared do not agree in."""

    field: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Comparison:
    """Sweeps side by side."""

    cells: tuple[ComparedCell, ...]
    """In the order of the first sweep's plan, then those that only later ones have."""
    fields: tuple[FieldDifference, ...]
    """Beside the axes: of the first treatment of each."""


def compared_sweep(session: Session, name: str) -> ComparedSweep:
    """One side of a comparison. Raises `NotFoundError`."""
    return ComparedSweep(ablation_table(session, name), cell_configs(session, find_sweep(session, name)))


def compare_sweeps(sweeps: Sequence[ComparedSweep]) -> Comparison:
    """The cells of all of them by their setting of every axis that one of them varies."""
    axes = list(dict.fromkeys(axis for one in sweeps for axis in one.table.axes))
    read = {axis for one in sweeps for row in one.table.controls for axis in row.settings}
    found: dict[str, tuple[dict[str, Any], bool, list[TableRow | None]]] = {}
    for i, one in enumerate(sweeps):
        for row in one.table.rows:
            settings = _settings(row, one, axes, read)
            key = json.dumps([row.is_control, settings], sort_keys=True)
            rows = found.setdefault(key, (settings, row.is_control, [None] * len(sweeps)))[2]
            rows[i] = row
    cells = tuple(
        ComparedCell(settings, is_control, tuple(rows), differences(rows))
        for settings, is_control, rows in found.values()
    )
    firsts = [one.configs.get(row.cell, {}) for one in sweeps for row in one.table.treatments[:1]]
    return Comparison(cells, differing_fields(firsts, without=axes))


def _settings(row: TableRow, sweep: ComparedSweep, axes: Sequence[str], read: set[str]) -> dict[str, Any]:
    """The cell's value of every axis: of those that only another sweep varies, as its job is configured.

    A control has no value of an axis that no control reads.
    """
    config = sweep.configs.get(row.cell, {})
    foreign = {
        axis: config[axis]
        for axis in axes
        if axis not in sweep.table.axes and axis in config and (axis in read or not row.is_control)
    }
    own = row.settings | foreign
    return {axis: own[axis] for axis in axes if axis in own}


def differences(rows: Sequence[TableRow | None]) -> tuple[Difference | None, ...]:
    """Each row minus the first of them."""
    first = rows[0]
    return tuple(
        None if i == 0 or row is None or first is None else _difference(row, first)
        for i, row in enumerate(rows)
    )


def _difference(row: TableRow, first: TableRow) -> Difference | None:
    if row.mean is None or first.mean is None:
        return None
    common = len(set(row.seeds) & set(first.seeds))
    if common > 1 or (common and min(row.n, first.n) < 2):
        return paired_delta(_losses(row), _losses(first))
    return welch_delta(row.losses, first.losses)


def _losses(row: TableRow) -> dict[int, float]:
    return dict(zip(row.seeds, row.losses, strict=True))


def differing_fields(configs: Sequence[Config], without: Sequence[str] = ()) -> tuple[FieldDifference, ...]:
    """The fields in which configurations differ, seeds and the fields `without` left out."""
    names = sorted({name for config in configs for name in config} - {"seed", *without})
    values = {name: tuple(config.get(name) for config in configs) for name in names}
    return tuple(FieldDifference(n, v) for n, v in values.items() if any(one != v[0] for one in v))

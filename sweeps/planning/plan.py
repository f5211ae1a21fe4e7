"""A sweep expanded: its cells with their controls, and its jobs in the order of their dispatch."""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headcount.sweeps.file.document import SpecError
from headcount.sweeps.file.expression import ExpressionError
from headcount.sweeps.file.rules import broken_rule, cell_name
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.planning.drafts import (
    Draft,
    Point,
    Prepare,
    check_tail,
    configs_of,
    draft_cells,
    prepared,
    settings_read,
)
from headcount.sweeps.planning.growth import Growth, ToCome, cell_key
from headcount.sweeps.planning.identity import digest
from headcount.sweeps.planning.instruments import PlannedInstrument, planned_instruments
from headcount.sweeps.planning.planned import PlannedCell, PlannedJob
from headcount.sweeps.planning.refining import most_refined
from headcount.trainer.config import DataConfig, FieldError, complete_fields
from headcount.trainer.data import Manifest
from headcount.trainer.flops import job_flops

MAX_JOBS = 100_000
"""Of one sweep, so that a slip in a list of values is refused rather than expanded."""

NOTHING = Growth()


@dataclass(frozen=True)
class Plan:
    """Everything a sweep asks to be trained. No two jobs have the same id."""

    spec: SweepSpec
    datasets: tuple[Manifest, ...]
    cells: tuple[PlannedCell, ...]
    jobs: tuple[PlannedJob, ...]
    texts: Mapping[DataConfig, Manifest]
    """The data set of every text that a cell names."""
    to_come: ToCome | None = None
    """What the sweep may add to itself; none where that is nothing."""
    instruments: tuple[PlannedInstrument, ...] = ()
    """What is to be measured of its jobs when they have finished."""

    def cell_of(self, settings: Mapping[str, Any]) -> PlannedCell | None:
        """The cell that has these settings of all axes; its stream may not read them all."""
        config, _ = configs_of(self.spec, settings)
        read = settings_read(self.spec, config, settings)
        found = [cell for cell in self.cells if cell.settings == read]
        return min(found, key=lambda cell: cell.is_control, default=None)

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """Axis to the values that cells have: those of the file, and those that were found in between."""
        axes = {}
        for axis, listed in self.spec.axes.items():
            given = () if axis in self.spec.ranges else listed
            found = {cell.settings[axis] for cell in self.cells if axis in cell.settings} - {*given}
            axes[axis] = tuple(sorted((*given, *found))) if found else given
        return axes


def plan(spec: SweepSpec, prepare: Prepare, growth: Growth = NOTHING) -> Plan:
    """Expand `spec`; `prepare` gives the manifest of the text that a job names.

    Points of the grid that differ only in what their stream does not read are one cell. Of a search the grid,
    with ranges at their two ends, is only checked, and the cells are those that `growth` tells of. Raises
    `SpecError` for a cell that breaks a rule of the trainer and is not skipped, before any text is prepared.
    """
    _check_size(spec)
    grid = [Point(settings, *configs_of(spec, settings)) for settings in _unskipped(spec)]
    if not grid:
        raise spec.error("every cell is skipped", "skip")
    if spec.tail is not None:
        check_tail(spec, spec.tail, grid)
    texts = prepared(spec, grid, prepare)
    grid_drafts, grid_pairs = draft_cells(spec, grid, texts)
    points = [Point(dict(settings), *configs_of(spec, settings)) for settings in growth.points]
    drafts, pairs = grid_drafts, grid_pairs
    if spec.search is not None:
        _check_objective(spec, grid_pairs)
        drafts, pairs = draft_cells(spec, points, texts) if points else ({}, {})
    elif points:
        drafts, pairs = draft_cells(spec, [*grid, *points], texts)
    positions = {key: position for position, key in enumerate(drafts)}
    controls = set(pairs.values())
    cells = tuple(
        PlannedCell(
            position=positions[key],
            settings=draft.settings,
            is_control=key in controls,
            control=positions[pairs[key]] if key in pairs and key not in controls else None,
        )
        for key, draft in drafts.items()
    )
    datasets = {manifest.fingerprint: manifest for manifest in texts.values()}
    jobs = _jobs(spec, cells, list(drafts.values()), growth)
    to_come = _to_come(spec, grid_drafts, grid_pairs, growth, len(jobs))
    instruments = planned_instruments(spec, jobs)
    return Plan(spec, tuple(datasets.values()), cells, jobs, texts, to_come, instruments)


def is_trainable(spec: SweepSpec, settings: Mapping[str, Any]) -> bool:
    """Whether a point of a search is not skipped, and breaks no rule of the trainer."""
    try:
        if spec.skip and _is_skipped(spec, settings):
            return False
        configs_of(spec, settings)
    except SpecError:
        return False
    return True


def points_at(spec: SweepSpec, values: Iterable[float]) -> tuple[dict[str, Any], ...]:
    """The grid's settings with other values of the axis that the sweep refines."""
    assert spec.refine is not None
    first = spec.axes[spec.refine][0]
    others = [settings for settings in _unskipped(spec) if settings[spec.refine] == first]
    points = tuple({**settings, spec.refine: value} for value in values for settings in others)
    return tuple(settings for settings in points if is_trainable(spec, settings))


def _check_size(spec: SweepSpec) -> None:
    cells = math.prod(len(values) for values in spec.axes.values())
    if cells * len(spec.seeds) > MAX_JOBS:
        raise spec.error(
            f"{cells} cells at {len(spec.seeds)} seeds are {cells * len(spec.seeds)} jobs; "
            f"a sweep has at most {MAX_JOBS}",
            "axes",
            "seeds",
        )


def _unskipped(spec: SweepSpec) -> Iterator[dict[str, Any]]:
    """The settings of the grid in the order of the axes, less those that an expression skips."""
    for values in itertools.product(*spec.axes.values()):
        settings = dict(zip(spec.axes, values, strict=True))
        if not spec.skip or not _is_skipped(spec, settings):
            yield settings


def _is_skipped(spec: SweepSpec, settings: Mapping[str, Any]) -> bool:
    try:
        fields = complete_fields({**spec.shared, **settings})
    except FieldError as error:
        raise broken_rule(spec, settings, error) from error
    for index, skips in enumerate(spec.skip):
        try:
            if skips(fields):
                return True
        except ExpressionError as error:
            cell = f"in the cell {cell_name(settings)}: " if settings else ""
            raise spec.error(f"{cell}{error}", f"skip[{index}]") from error
    return False


def _jobs(
    spec: SweepSpec, cells: tuple[PlannedCell, ...], drafts: list[Draft], growth: Growth
) -> tuple[PlannedJob, ...]:
    keys = [cell_key(cell.is_control, cell.settings) for cell in cells]
    seeds = [tuple(dict.fromkeys((*spec.seeds, *growth.seeds.get(key, ())))) for key in keys]
    given_up = _given_up(cells, keys, growth)
    ids = [
        {seed: digest({**draft.content, "seed": seed}) for seed in seeds[position]}
        for position, draft in enumerate(drafts)
    ]
    # a control goes before its first treatment, so that deltas appear as soon as treatments finish
    ahead = dict.fromkeys(p for cell in cells for p in (cell.control, cell.position) if p is not None)
    if spec.order == "axis":
        sequence = [(position, seed) for position in ahead for seed in seeds[position]]
    else:
        every = dict.fromkeys((*spec.seeds, *sorted(seed for some in seeds for seed in some)))
        sequence = [(position, seed) for seed in every for position in ahead if seed in ids[position]]
    if spec.order == "shuffled":
        # ids are hashes: their order is as good as drawn, and the same on every machine
        sequence.sort(key=lambda pair: ids[pair[0]][pair[1]])
    jobs = []
    for order, (position, seed) in enumerate(sequence):
        control = cells[position].control
        jobs.append(
            PlannedJob(
                id=ids[position][seed],
                config=replace(drafts[position].config, seed=seed),
                fingerprint=drafts[position].fingerprint,
                cell=position,
                control_id=None if control is None else ids[control].get(seed),
                position=order,
                is_wanted=position not in given_up,
            )
        )
    return tuple(jobs)


def _given_up(cells: tuple[PlannedCell, ...], keys: list[str], growth: Growth) -> set[int]:
    """Positions of the pruned cells, and of controls that no other cell is paired with."""
    pruned = {cell.position for cell in cells if not cell.is_control and keys[cell.position] in growth.pruned}
    kept = {cell.control for cell in cells if cell.position not in pruned}
    lost = {control for position in pruned if (control := cells[position].control) is not None}
    return pruned | (lost - kept)


def _check_objective(spec: SweepSpec, pairs: Mapping[str, str]) -> None:
    if spec.search is not None and spec.search.objective == "delta" and len(set(pairs.values())) > 1:
        raise spec.error(
            "a delta ranks trials only where all have the same control, and these axes give them different "
            "ones; take objective: loss",
            "search.objective",
        )


def _to_come(
    spec: SweepSpec, grid: Mapping[str, Draft], pairs: Mapping[str, str], growth: Growth, jobs: int
) -> ToCome | None:
    """What the sweep may still add, by its file, to the `jobs` that it has."""
    if growth.is_over:
        return None
    if spec.search is not None:
        controls = len(set(pairs.values()))
        trials = spec.search.trials * (1 + (controls > 1)) + (controls == 1)
        most = trials * len(spec.seeds) + spec.search.fresh_seeds * (1 + (controls > 0))
    elif spec.refine is not None:
        values = len(spec.axes[spec.refine])
        most = len(grid) // values * (values + most_refined(values)) * len(spec.seeds)
    elif spec.seed_rule is not None:
        most = len(grid) * spec.seed_rule.max
    else:
        return None
    costliest = max((draft.config for draft in grid.values()), key=job_flops)
    return ToCome(most - jobs, costliest) if most > jobs else None

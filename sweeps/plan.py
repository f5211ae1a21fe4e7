"""A sweep expanded: its cells with their controls, and its jobs in the order of their dispatch."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from headcount.sweeps.document import SpecError
from headcount.sweeps.expression import ExpressionError
from headcount.sweeps.identity import canonical, digest
from headcount.sweeps.rules import broken_control, broken_rule, cell_name, field_places
from headcount.sweeps.spec import SweepSpec
from headcount.trainer.config import DataConfig, FieldError, JobConfig, complete_fields, job_from_fields
from headcount.trainer.data import Manifest
from headcount.trainer.residuals.registry import stream_fields, stream_names, stream_reads
from headcount.trainer.tail import is_evaluated, sized_tail_start

MAX_JOBS = 100_000
"""Of one sweep, so that a slip in a list of values is refused rather than expanded."""

Prepare = Callable[[DataConfig], Manifest]


@dataclass(frozen=True)
class PlannedCell:
    """One setting of the axes, or the control of such settings."""

    position: int
    """In the plan, from 0: the grid in the order of the axes, then the controls that it lacks."""
    settings: Mapping[str, Any]
    """Axis to this cell's value, for the axes that the cell's residual stream reads."""
    is_control: bool
    control: int | None
    """Position of the control that this cell is paired with."""


@dataclass(frozen=True)
class PlannedJob:
    """One cell at one seed."""

    id: str
    config: JobConfig
    fingerprint: str
    cell: int
    """Position of its cell."""
    control_id: str | None
    """The job at the same seed in the cell's control."""
    position: int
    """Order of dispatch, from 0."""


@dataclass(frozen=True)
class Plan:
    """Everything a sweep asks to be trained. No two jobs have the same id."""

    spec: SweepSpec
    datasets: tuple[Manifest, ...]
    cells: tuple[PlannedCell, ...]
    jobs: tuple[PlannedJob, ...]


def plan(spec: SweepSpec, prepare: Prepare) -> Plan:
    """Expand `spec`; `prepare` gives the manifest of the text that a job names.

    Points of the grid that differ only in what their stream does not read are one cell. Raises `SpecError`
    for a cell that breaks a rule of the trainer and is not skipped, before any text is prepared.
    """
    _check_size(spec)
    points = [_Point(settings, *_configs(spec, settings)) for settings in _unskipped(spec)]
    if not points:
        raise spec.error("every cell is skipped", "skip")
    if spec.tail is not None:
        _check_tail(spec, spec.tail, points)
    texts = _prepared(spec, points, prepare)
    drafts, pairs = _drafts(spec, points, texts)
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
    return Plan(spec, tuple(datasets.values()), cells, _jobs(spec, cells, list(drafts.values())))


class _Point(NamedTuple):
    """A setting of all axes, with its configuration at seed 0 and its control's."""

    settings: dict[str, Any]
    config: JobConfig
    control: JobConfig | None


class _Draft(NamedTuple):
    """A cell on its way: `content` is canonical at seed 0."""

    settings: dict[str, Any]
    config: JobConfig
    fingerprint: str
    content: dict[str, Any]


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
        fields = complete_fields({**spec.job, **settings})
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


def _configs(spec: SweepSpec, settings: Mapping[str, Any]) -> tuple[JobConfig, JobConfig | None]:
    """A cell's configuration and its control's."""
    fields = {**spec.job, **settings}
    try:
        config = job_from_fields(fields)
    except FieldError as error:
        raise broken_rule(spec, settings, error) from error
    if spec.control is None:
        return config, None
    try:
        return config, job_from_fields({**fields, **spec.control})
    except FieldError as error:
        raise broken_control(spec, settings, error) from error


def _check_tail(spec: SweepSpec, tail: int, points: Iterable[_Point]) -> None:
    """Every cell has that many evaluations after its warm-up."""
    for settings, config, _ in points:
        train = config.train
        start = sized_tail_start(tail, train.steps, train.eval_every)
        if start < max(1, train.warmup_steps):
            after = sum(
                is_evaluated(step, train.steps, train.eval_every)
                for step in range(max(1, train.warmup_steps), train.steps + 1)
            )
            cell = f" (in the cell {cell_name(settings)})" if settings else ""
            raise spec.error(
                f"{tail} evaluations reach into the warm-up of {train.warmup_steps} steps; expected at most "
                f"{after}{cell}",
                "tail",
            )


def _prepared(spec: SweepSpec, points: Iterable[_Point], prepare: Prepare) -> dict[DataConfig, Manifest]:
    """The manifest of every text that a cell trains on; each is prepared once."""
    texts: dict[DataConfig, Manifest] = {}
    for settings, config, _ in points:
        if config.data in texts:
            continue
        try:
            texts[config.data] = prepare(config.data)
        except FieldError as error:
            raise spec.error(
                error.problem, *field_places(spec, error.name, settings), *field_places(spec, "data.context")
            ) from error
    return texts


def _drafts(
    spec: SweepSpec, points: Iterable[_Point], texts: Mapping[DataConfig, Manifest]
) -> tuple[dict[str, _Draft], dict[str, str]]:
    """The cells by their id at seed 0, the grid first; and the control of each cell of the grid."""
    grid: dict[str, _Draft] = {}
    controls: dict[str, _Draft] = {}
    pairs: dict[str, str] = {}
    for settings, config, control in points:
        draft = _draft(spec, settings, config, texts[config.data])
        key = digest(draft.content)
        if grid.setdefault(key, draft).settings != draft.settings:
            raise _same_job(spec, grid[key], draft)
        if control is not None and spec.control is not None:
            drafted = _draft(spec, {**settings, **spec.control}, control, texts[control.data])
            paired = digest(drafted.content)
            controls.setdefault(paired, drafted)
            if pairs.setdefault(key, paired) != paired:
                raise _several_controls(spec, draft, controls[pairs[key]], drafted)
    for axis in spec.axes:
        if not any(axis in draft.settings for draft in grid.values()):
            readers = [name for name in stream_names() if axis.partition(".")[2] in stream_reads(name)]
            streams = sorted({draft.config.model.residual for draft in grid.values()})
            raise spec.error(
                f"the residual stream {', '.join(streams)} does not read it; "
                f"set model.residual to one that does: {', '.join(readers)}",
                f"axes.{axis}",
            )
    return grid | {key: draft for key, draft in controls.items() if key not in grid}, pairs


def _draft(spec: SweepSpec, settings: Mapping[str, Any], config: JobConfig, manifest: Manifest) -> _Draft:
    if "model.vocab_size" not in {**spec.job, **spec.axes}:
        config = replace(config, model=replace(config.model, vocab_size=manifest.vocab_size))
    elif config.model.vocab_size != manifest.vocab_size:
        raise spec.error(
            f"{config.model.vocab_size}, where the text {manifest.name} has {manifest.vocab_size}; "
            "leave the line out to take the text's",
            *field_places(spec, "model.vocab_size", settings),
        )
    idle = {f"model.{name}" for name in stream_fields() - stream_reads(config.model.residual)}
    read = {axis: settings[axis] for axis in spec.axes if axis not in idle}
    return _Draft(read, config, manifest.fingerprint, canonical(config, manifest.fingerprint))


def _same_job(spec: SweepSpec, one: _Draft, other: _Draft) -> SpecError:
    differing = next(axis for axis in other.settings if one.settings.get(axis) != other.settings[axis])
    return spec.error(
        f"the cells {cell_name(one.settings)} and {cell_name(other.settings)} are the same job; keep one",
        *field_places(spec, differing, other.settings),
    )


def _several_controls(spec: SweepSpec, draft: _Draft, one: _Draft, other: _Draft) -> SpecError:
    axis = next(axis for axis in other.settings if one.settings.get(axis) != other.settings[axis])
    return spec.error(
        f"the cell {cell_name(draft.settings)} would have several controls, {cell_name(one.settings)} and "
        f"{cell_name(other.settings)}; give {axis} in control",
        "control",
    )


def _jobs(spec: SweepSpec, cells: tuple[PlannedCell, ...], drafts: list[_Draft]) -> tuple[PlannedJob, ...]:
    ids = [{seed: digest({**draft.content, "seed": seed}) for seed in spec.seeds} for draft in drafts]
    # a control goes before its first treatment, so that deltas appear as soon as treatments finish
    ahead = dict.fromkeys(p for cell in cells for p in (cell.control, cell.position) if p is not None)
    if spec.order == "axis":
        sequence = [(position, seed) for position in ahead for seed in spec.seeds]
    else:
        sequence = [(position, seed) for seed in spec.seeds for position in ahead]
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
                control_id=None if control is None else ids[control][seed],
                position=order,
            )
        )
    return tuple(jobs)

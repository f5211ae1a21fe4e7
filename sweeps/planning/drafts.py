"""Cells on their way to a plan: each with its configuration, its text and its control."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from headcount.sweeps.file.document import SpecError
from headcount.sweeps.file.rules import broken_control, broken_rule, cell_name, field_places
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.planning.identity import canonical, digest
from headcount.trainer.config import DataConfig, FieldError, JobConfig, job_from_fields
from headcount.trainer.data import Manifest
from headcount.trainer.residuals.registry import stream_fields, stream_names, stream_reads
from headcount.trainer.starting import INIT_FROM
from headcount.trainer.tail import is_evaluated, sized_tail_start

Prepare = Callable[[DataConfig], Manifest]
"""Gives the manifest of the text that a job names."""


class Point(NamedTuple):
    """A setting of all axes, with its configuration at seed 0 and its control's."""

    settings: dict[str, Any]
    config: JobConfig
    control: JobConfig | None


class Draft(NamedTuple):
    """A cell on its way: `content` is canonical at seed 0."""

    settings: dict[str, Any]
    config: JobConfig
    fingerprint: str
    content: dict[str, Any]


def configs_of(spec: SweepSpec, settings: Mapping[str, Any]) -> tuple[JobConfig, JobConfig | None]:
    """A cell's configuration and its control's."""
    fields = {**spec.shared, **settings}
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


def check_tail(spec: SweepSpec, tail: int, points: Iterable[Point]) -> None:
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


def prepared(spec: SweepSpec, points: Iterable[Point], prepare: Prepare) -> dict[DataConfig, Manifest]:
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


def draft_cells(
    spec: SweepSpec, points: Iterable[Point], texts: Mapping[DataConfig, Manifest]
) -> tuple[dict[str, Draft], dict[str, str]]:
    """The cells by their id at seed 0, the grid first; and the control of each cell of the grid."""
    grid: dict[str, Draft] = {}
    controls: dict[str, Draft] = {}
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


def _draft(spec: SweepSpec, settings: Mapping[str, Any], config: JobConfig, manifest: Manifest) -> Draft:
    if "model.vocab_size" in spec.initial:
        if manifest.vocab_size > config.model.vocab_size:
            raise spec.error(
                f"the weights' model has a vocabulary of {config.model.vocab_size}, the text {manifest.name} "
                f"one of {manifest.vocab_size}; take a text in the model's tokens",
                f"job.{INIT_FROM}",
            )
    elif "model.vocab_size" not in {**spec.job, **spec.axes}:
        config = replace(config, model=replace(config.model, vocab_size=manifest.vocab_size))
    elif config.model.vocab_size != manifest.vocab_size:
        raise spec.error(
            f"{config.model.vocab_size}, where the text {manifest.name} has {manifest.vocab_size}; "
            "leave the line out to take the text's",
            *field_places(spec, "model.vocab_size", settings),
        )
    return Draft(
        settings_read(spec, config, settings),
        config,
        manifest.fingerprint,
        canonical(config, manifest.fingerprint),
    )


def settings_read(spec: SweepSpec, config: JobConfig, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The axes that a cell's residual stream reads, with their values."""
    idle = {f"model.{name}" for name in stream_fields() - stream_reads(config.model.residual)}
    return {axis: settings[axis] for axis in spec.axes if axis not in idle}


def _same_job(spec: SweepSpec, one: Draft, other: Draft) -> SpecError:
    differing = next(axis for axis in other.settings if one.settings.get(axis) != other.settings[axis])
    return spec.error(
        f"the cells {cell_name(one.settings)} and {cell_name(other.settings)} are the same job; keep one",
        *field_places(spec, differing, other.settings),
    )


def _several_controls(spec: SweepSpec, draft: Draft, one: Draft, other: Draft) -> SpecError:
    axis = next(axis for axis in other.settings if one.settings.get(axis) != other.settings[axis])
    return spec.error(
        f"the cell {cell_name(draft.settings)} would have several controls, {cell_name(one.settings)} and "
        f"{cell_name(other.settings)}; give {axis} in control",
        "control",
    )

"""The instruments of a plan: jobs of their own, each with the training job that it looks at as its parent."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcount.sweeps.file.expression import ExpressionError
from headcount.sweeps.file.instruments import Chosen, EvaluateAsked, ProbeAsked
from headcount.sweeps.file.spec import SweepSpec
from headcount.sweeps.planning.identity import digest
from headcount.sweeps.planning.planned import PlannedJob
from headcount.trainer.config import JobConfig, fields_of
from headcount.trainer.downstream.task_files import task_data_digest, tasks_digest
from headcount.trainer.errors import FieldError, UserError
from headcount.trainer.residuals.registry import probed_streams

REVISION = 1
"""Part of every instrument's id. Raised only when the same settings would measure other numbers."""

FILES = {"probe": "probe.json", "evaluate": "items.json"}
"""By kind: what is kept beside the measurements, every site's figures or every item's score."""

_DEFAULTS: dict[str, Any] = {
    "probe.windows": ProbeAsked.windows,
    "probe.slices": ProbeAsked.slices,
    "probe.draws": ProbeAsked.draws,
    "probe.seed": ProbeAsked.seed,
}

_PLACES = {"evaluate.include", "evaluate.task_data", "evaluate.tokenizer"}
"""Paths: what they hold counts, not where it lies."""


@dataclass(frozen=True)
class PlannedInstrument:
    """One look at one training job."""

    id: str
    kind: str
    """`probe` or `evaluate`."""
    parent_id: str
    settings: Mapping[str, Any]
    """By dotted names under its kind, such as `probe.windows`."""
    is_wanted: bool = True


def instrument_id(kind: str, parent_id: str, settings: Mapping[str, Any]) -> str:
    """Equal for two looks that would measure the same of the same job."""
    return digest({"kind": kind, "revision": REVISION, "parent": parent_id, **counted_settings(settings)})


def counted_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those that change what is measured: without those at their default, and without paths."""
    return {n: v for n, v in settings.items() if n not in _PLACES and v != _DEFAULTS.get(n)}


def probe_settings(asked: ProbeAsked) -> dict[str, Any]:
    return {f"probe.{name}": getattr(asked, name) for name in ("windows", "slices", "draws", "seed")}


def evaluate_settings(asked: EvaluateAsked, folder: Path | None = None) -> dict[str, Any]:
    """Paths are taken from `folder`. Raises `FieldError` where a folder is missing or empty."""
    settings: dict[str, Any] = {"evaluate.tasks": list(asked.tasks)}
    if asked.limit is not None:
        settings["evaluate.limit"] = asked.limit
    for name, given, digest_of in (
        ("evaluate.include", asked.include, tasks_digest),
        ("evaluate.task_data", asked.task_data, task_data_digest),
    ):
        if given is not None:
            place = _absolute(given, folder)
            try:
                settings |= {name: str(place), f"{name}_sha256": digest_of(place)}
            except UserError as error:
                raise FieldError(name, str(error)) from error
    if asked.tokenizer is not None:
        settings["evaluate.tokenizer"] = str(_absolute(asked.tokenizer, folder))
    return settings


def planned_instruments(spec: SweepSpec, jobs: Iterable[PlannedJob]) -> tuple[PlannedInstrument, ...]:
    """What the sweep asks to be measured, in the order of its jobs.

    Raises `SpecError` where a section chooses no job at all, or the slices do not divide a width.
    """
    planned = list(jobs)
    found: list[PlannedInstrument] = []
    if spec.probe is not None:
        settings = probe_settings(spec.probe)
        chosen = [
            job
            for job in _chosen(spec, "probe", spec.probe.chosen, planned)
            if job.config.model.residual in probed_streams()
        ]
        for job in chosen:
            if job.config.model.d_model % spec.probe.slices:
                problem = f"{spec.probe.slices} does not divide the width {job.config.model.d_model}"
                raise spec.error(problem, "probe.slices", "probe")
        _check_some(spec, "probe", planned, chosen)
        found += [_instrument("probe", job, settings) for job in chosen]
    if spec.evaluate is not None:
        try:
            settings = evaluate_settings(spec.evaluate, spec.folder)
        except FieldError as error:
            raise spec.error(error.problem, error.name) from error
        chosen = list(_chosen(spec, "evaluate", spec.evaluate.chosen, planned))
        _check_some(spec, "evaluate", planned, chosen)
        found += [_instrument("evaluate", job, settings) for job in chosen]
    return tuple(found)


def _instrument(kind: str, job: PlannedJob, settings: Mapping[str, Any]) -> PlannedInstrument:
    return PlannedInstrument(
        instrument_id(kind, job.id, settings), kind, job.id, settings, is_wanted=job.is_wanted
    )


def _chosen(
    spec: SweepSpec, section: str, chosen: Chosen, jobs: Iterable[PlannedJob]
) -> Iterator[PlannedJob]:
    for job in jobs:
        if chosen.seeds is not None and job.config.seed not in chosen.seeds:
            continue
        if chosen.where is None or _holds(spec, section, chosen, job.config):
            yield job


def _holds(spec: SweepSpec, section: str, chosen: Chosen, config: JobConfig) -> bool:
    assert chosen.where is not None
    try:
        return chosen.where(fields_of(config))
    except ExpressionError as error:
        raise spec.error(str(error), f"{section}.where") from error


def _check_some(spec: SweepSpec, section: str, jobs: list[PlannedJob], chosen: list[PlannedJob]) -> None:
    """A search has no job yet when it is submitted."""
    if jobs and not chosen:
        only = f" whose residual stream it reads: {', '.join(probed_streams())}" if section == "probe" else ""
        raise spec.error(f"chooses no job of this sweep{only}", section)


def _absolute(path: str, folder: Path | None) -> Path:
    return (folder or Path()).joinpath(Path(path).expanduser()).absolute()

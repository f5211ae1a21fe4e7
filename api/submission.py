"""A sweep that a client sends: read as data, planned, and written as wishes."""

import json
import re
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from sqlalchemy import select
from sqlalchemy.orm import Session

from headcount.api.callers import Caller
from headcount.api.problems import Problem
from headcount.api.results import QueryError
from headcount.orchestrator.artifacts.datasets import prepare_for_all
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import submit
from headcount.orchestrator.store.difference import Difference, difference
from headcount.orchestrator.store.growth import growth_of
from headcount.orchestrator.store.models import Sweep
from headcount.orchestrator.store.submission import compare
from headcount.orchestrator.submitting.history import read_history
from headcount.orchestrator.submitting.starting import start_for_all
from headcount.sweeps.file.spec import parse_spec
from headcount.sweeps.forecasting.forecast import TimeForecast, ToComeCost, forecast
from headcount.sweeps.planning.plan import Plan, plan
from headcount.trainer.config import DataConfig
from headcount.trainer.data import Manifest
from headcount.trainer.starting import INIT_FROM

ORIGIN = "the body of the request"
"""What errors name instead of a file."""

_NO_PATH = re.compile("job|[0-9a-f]{6,64}")

_YAML = ("application/yaml", "application/x-yaml", "text/yaml")


async def spec_text(request: Request) -> str:
    """The body as the text of a sweep file. 415 for another media type, 422 for text that is not UTF-8."""
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != "application/json" and media not in _YAML:
        accepted = "send application/yaml or application/json"
        raise Problem(415, "unsupported_media_type", f"a sweep is not read from {media[:100]!r}; {accepted}")
    try:
        text = (await request.body()).decode("utf-8")
        if media == "application/json":
            # written anew, since not all JSON is YAML, and so that errors have a line to name
            text = json.dumps(json.loads(text, parse_constant=_refuse), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError) as error:
        raise Problem(422, "invalid_body", f"{ORIGIN} is not UTF-8 {media}: {error}") from error
    return text


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not JSON")


def read_spec(session: Session, text: str, settings: Settings) -> Plan:
    """The plan of the sweep in `text`, with what the store has of its growth. Raises `UserError`."""

    def named(config: DataConfig) -> Manifest:
        if config.text:
            raise QueryError(
                "data.text: a sweep sent to a service names a data source that the service knows, not a path"
            )
        return prepare_for_all(config, settings)

    spec = parse_spec(text, ORIGIN)
    if not _NO_PATH.fullmatch(spec.job.get(INIT_FROM, "job")):
        raise QueryError("init.from: a sweep sent to a service names the id of one of its jobs, not a path")
    asked = spec.evaluate
    if asked is not None and (asked.include or asked.task_data or asked.tokenizer):
        raise QueryError("evaluate: a sweep sent to a service names tasks that lm-eval knows, no path")
    spec = start_for_all(spec, settings)
    return plan(spec, named, growth_of(session, spec))


@dataclass(frozen=True)
class CellPlan:
    """One cell that would be trained at every seed."""

    settings: dict[str, Any]
    is_control: bool
    parameters: int
    flops: float
    """Of one job."""


@dataclass(frozen=True)
class SweepDifference(Difference):
    """What submitting a sweep changes of the one of its name. Cells by their settings."""


@dataclass(frozen=True)
class PlanView:
    """What a sweep would train. Nothing was submitted."""

    sweep: str
    cells: tuple[CellPlan, ...]
    seeds: tuple[int, ...]
    jobs: int
    new: int
    """Jobs that the store does not have."""
    tokens: int
    flops: float
    """Of all jobs together, those that the store has among them."""
    warnings: tuple[str, ...]
    """What the sweep's table will not be able to say."""
    to_come: ToComeCost | None
    """What a search, refined values or seeds by a rule may add, at most: not among `jobs`; else none."""
    time: TimeForecast | None
    """How long what lacks a result takes, by what the store has measured on hardware of this kind."""
    difference: SweepDifference | None
    """What it changes of the sweep of that name; none where there is none."""


def plan_view(session: Session, planned: Plan) -> PlanView:
    """A plan as it is answered, held against the store."""
    cost = forecast(planned, read_history(session, planned))
    found = difference(session, planned)
    return PlanView(
        sweep=planned.spec.name,
        cells=tuple(
            CellPlan(dict(cell.settings), cell.is_control, job.parameters, job.flops)
            for cell, job in zip(planned.cells, cost.cells, strict=True)
        ),
        seeds=planned.spec.seeds,
        jobs=len(planned.jobs),
        new=compare(session, planned).new,
        tokens=cost.tokens,
        flops=cost.flops,
        warnings=cost.warnings,
        to_come=cost.to_come,
        time=cost.time,
        difference=SweepDifference(**vars(found)) if found else None,
    )


@dataclass(frozen=True)
class SubmissionView:
    """A sweep that was stored. A scheduler takes it from there."""

    sweep: str
    new: int
    """Jobs that no sweep had before."""
    known: int
    """Jobs that this sweep had already."""
    shared: int
    """Jobs that the store had from other sweeps."""
    requeued: int
    """Known or shared jobs that had failed or been cancelled, and are queued again."""


def store_sweep(session: Session, planned: Plan, caller: Caller) -> SubmissionView:
    """Write the sweep's wishes. 403 for a sweep of that name that is another's."""
    check_owner(session, planned.spec.name, caller)
    found = submit(session, planned, caller.name)
    return SubmissionView(planned.spec.name, found.new, found.known, found.shared, found.requeued)


def check_owner(session: Session, sweep: str, caller: Caller) -> None:
    """A sweep, if there is one of that name, is changed by its owner or with the scope admin (403)."""
    owner = session.scalar(select(Sweep.owner).where(Sweep.name == sweep))
    if owner is not None and owner != caller.name and "admin" not in caller.scopes:
        raise Problem(
            403, "not_the_owner", f"the sweep {sweep!r} is {owner!r}'s: changing it needs the scope admin"
        )

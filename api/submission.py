"""A sweep that a client sends: read as data, planned, and written as wishes."""

import getpass
import json
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from sqlalchemy.orm import Session

from headcount.api.problems import Problem
from headcount.api.results import QueryError
from headcount.orchestrator.settings import Settings
from headcount.orchestrator.store import submit
from headcount.orchestrator.store.submission import compare
from headcount.sweeps.forecast import forecast
from headcount.sweeps.plan import Plan, plan
from headcount.sweeps.spec import parse_spec
from headcount.trainer.config import DataConfig
from headcount.trainer.data import Manifest, prepare

ORIGIN = "the body of the request"
"""What errors name instead of a file."""

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


def read_spec(text: str, settings: Settings) -> Plan:
    """The plan of the sweep in `text`. Raises `UserError` for anything that is wrong with it."""

    def named(config: DataConfig) -> Manifest:
        if config.text:
            raise QueryError(
                "data.text: a sweep sent to a service names a data source that the service knows, not a path"
            )
        return prepare(config, settings.home)

    return plan(parse_spec(text, ORIGIN), named)


@dataclass(frozen=True)
class CellPlan:
    """One cell that would be trained at every seed."""

    settings: dict[str, Any]
    is_control: bool
    parameters: int
    flops: float
    """Of one job."""


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


def plan_view(session: Session, planned: Plan) -> PlanView:
    """A plan as it is answered, held against the store."""
    cost = forecast(planned)
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


def store_sweep(session: Session, planned: Plan) -> SubmissionView:
    """Write the sweep's wishes."""
    found = submit(session, planned, _owner())
    return SubmissionView(planned.spec.name, found.new, found.known, found.shared, found.requeued)


def _owner() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        return "service"

"""Jobs: a sweep's list of them, one, and its curves."""

import base64
import hashlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import fastapi
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from headcount.api import results
from headcount.api.answering import Body, answer, as_json
from headcount.api.caching import NOT_MODIFIED
from headcount.api.dependencies import LARGEST, JobId, Query, SweepName, no_query
from headcount.api.formats import to_csv
from headcount.api.problems import Problem, responses
from headcount.api.results import (
    EvaluationPoint,
    JobCursor,
    JobErrors,
    JobSummary,
    JobView,
    ProgressPoint,
    WishedJob,
)
from headcount.api.security import needs
from headcount.api.versions import job_version, of_sweep, sweeps_version

router = APIRouter(prefix="/api/v1", tags=["jobs"], responses=responses(404) | NOT_MODIFIED)

JobState = Literal["queued", "running", "cancelling", "finished", "diverged", "failed", "cancelled"]


class JobQuery(Query):
    """Which jobs, and where to go on."""

    state: JobState | None = None
    cell: int | None = Field(None, ge=1, le=LARGEST)
    seed: int | None = Field(None, ge=0, le=LARGEST)
    cursor: str | None = Field(None, max_length=300, description="`next_cursor` of the page before.")
    limit: int = Field(100, ge=1, le=1000)


@dataclass(frozen=True)
class JobList:
    """A page of jobs in the order of dispatch."""

    items: tuple[JobSummary, ...]
    next_cursor: str | None
    """None on the last page."""


@router.get("/sweeps/{sweep}/jobs", response_model=JobList, openapi_extra=needs("read"))
async def list_jobs(
    request: Request, sweep: SweepName, query: Annotated[JobQuery, fastapi.Query()]
) -> Response:
    """The jobs of a sweep in the order of dispatch, a page at a time."""
    filters = query.model_dump(exclude={"cursor", "limit"})
    key = hashlib.sha256(repr((sweep, filters)).encode()).hexdigest()[:8]
    after = _decode(query.cursor, key) if query.cursor is not None else None

    def make(session: Session) -> Body:
        page = results.jobs(session, sweep, **filters, after=after, limit=query.limit)
        following = _encode(page.next, key) if page.next else None
        return Body(as_json(JobList(page.jobs, following)), _next_link(request, following))

    return await answer(request, of_sweep(sweep), make)


class AllJobsQuery(Query):
    """Which jobs, and where to go on."""

    state: JobState | None = None
    cursor: str | None = Field(None, max_length=300, description="`next_cursor` of the page before.")
    limit: int = Field(100, ge=1, le=1000)


@dataclass(frozen=True)
class AllJobsList:
    """A page of jobs, those of the newest sweep first."""

    items: tuple[WishedJob, ...]
    next_cursor: str | None
    """None on the last page."""


@router.get("/jobs", response_model=AllJobsList, openapi_extra=needs("read"))
async def list_all_jobs(request: Request, query: Annotated[AllJobsQuery, fastapi.Query()]) -> Response:
    """The jobs of every sweep, those of the newest first, a page at a time."""
    key = hashlib.sha256(repr(("", query.state)).encode()).hexdigest()[:8]
    after = _decode(query.cursor, key) if query.cursor is not None else None

    def make(session: Session) -> Body:
        page = results.all_jobs(session, state=query.state, after=after, limit=query.limit)
        following = _encode(page.next, key) if page.next else None
        return Body(as_json(AllJobsList(page.jobs, following)), _next_link(request, following))

    return await answer(request, sweeps_version, make)


def _next_link(request: Request, cursor: str | None) -> dict[str, str]:
    if cursor is None:
        return {}
    url = request.url.include_query_params(cursor=cursor)
    return {"Link": f'<{url.path}?{url.query}>; rel="next"'}


@router.get(
    "/jobs/{job}", response_model=JobView, openapi_extra=needs("read"), dependencies=[Depends(no_query)]
)
async def get_job(request: Request, job: JobId) -> Response:
    """One job: configuration, its difference from the control's, attempts and measurements."""

    def make(session: Session) -> bytes:
        return as_json(results.job_view(session, job))

    return await answer(request, _of_job(job), make)


def _of_job(job: str) -> Callable[[Session], str]:
    return lambda session: job_version(session, job)


@router.get(
    "/jobs/{job}/errors",
    response_model=JobErrors,
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
)
async def get_job_errors(request: Request, job: JobId) -> Response:
    """The errors inside a finished job: between the steps of its tail, and over validation windows."""

    def make(session: Session) -> bytes:
        return as_json(results.job_errors(session, job))

    return await answer(request, _of_job(job), make)


@dataclass(frozen=True)
class EvaluationList:
    """Every evaluation of a job."""

    items: tuple[EvaluationPoint, ...]


@router.get(
    "/jobs/{job}/evaluations",
    response_model=EvaluationList,
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
)
async def list_evaluations(request: Request, job: JobId) -> Response:
    """The validation loss of a job at every evaluated step."""

    def make(session: Session) -> bytes:
        return as_json(EvaluationList(results.evaluations(session, job)))

    return await answer(request, _of_job(job), make)


@router.get(
    "/jobs/{job}/evaluations.csv",
    response_class=Response,
    responses={
        200: {"description": "Step and loss.", "content": {"text/csv": {"schema": {"type": "string"}}}}
    },
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
)
async def get_evaluations_csv(request: Request, job: JobId) -> Response:
    """The validation loss of a job at every evaluated step, as CSV in full precision."""

    def make(session: Session) -> bytes:
        return to_csv([asdict(point) for point in results.evaluations(session, job)]).encode()

    return await answer(request, _of_job(job), make, form="csv")


class ProgressQuery(Query):
    """Where to go on."""

    after_step: int = Field(-1, ge=-1, le=LARGEST)
    limit: int = Field(1000, ge=1, le=10_000)


@dataclass(frozen=True)
class ProgressList:
    """Progress points in the order of their steps."""

    items: tuple[ProgressPoint, ...]
    next_step: int | None
    """`after_step` of the following page; None where this one is not full."""


@router.get("/jobs/{job}/progress", response_model=ProgressList, openapi_extra=needs("read"))
async def list_progress(
    request: Request, job: JobId, query: Annotated[ProgressQuery, fastapi.Query()]
) -> Response:
    """The training loss of a job as stored, which is thinned."""

    def make(session: Session) -> bytes:
        points = results.progress(session, job, after_step=query.after_step, limit=query.limit)
        return as_json(ProgressList(points, points[-1].step if len(points) == query.limit else None))

    return await answer(request, _of_job(job), make)


def _encode(cursor: JobCursor, key: str) -> str:
    text = f"{cursor.position}.{cursor.job_id}.{key}"
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(text: str, key: str) -> JobCursor:
    """The cursor in `text`, if it was made for the same sweep and filters, which `key` stands for."""
    problem = Problem(400, "bad_cursor", "the cursor is not one of this sweep and these filters")
    try:
        decoded: Any = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
        position, job_id, made_for = decoded.split(".")
        number = int(position)
    except ValueError as error:
        raise problem from error
    if made_for != key or not 0 <= number <= LARGEST or not job_id.isalnum():
        raise problem
    return JobCursor(number, job_id)

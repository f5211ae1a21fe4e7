"""Jobs: a sweep's list of them, one, and its curves."""

import base64
import hashlib
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import fastapi
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from headcount.api import results
from headcount.api.caching import NOT_MODIFIED, check_cached
from headcount.api.dependencies import LARGEST, JobId, Query, StoreDep, SweepName, no_query
from headcount.api.formats import to_csv
from headcount.api.problems import Problem, responses
from headcount.api.results import EvaluationPoint, JobCursor, JobSummary, JobView, ProgressPoint
from headcount.api.security import needs
from headcount.api.versions import job_version

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


@router.get("/sweeps/{sweep}/jobs", openapi_extra=needs("read"))
def list_jobs(
    request: Request,
    response: Response,
    store: StoreDep,
    sweep: SweepName,
    query: Annotated[JobQuery, fastapi.Query()],
) -> JobList:
    """The jobs of a sweep in the order of dispatch, a page at a time."""
    filters = query.model_dump(exclude={"cursor", "limit"})
    key = hashlib.sha256(repr((sweep, filters)).encode()).hexdigest()[:8]
    after = _decode(query.cursor, key) if query.cursor is not None else None
    with store.read() as session:
        response.headers.update(check_cached(request, results.sweep_version(session, sweep)))
        page = results.jobs(session, sweep, **filters, after=after, limit=query.limit)
    following = _encode(page.next, key) if page.next else None
    if following:
        url = request.url.include_query_params(cursor=following)
        response.headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    return JobList(page.jobs, following)


@router.get("/jobs/{job}", openapi_extra=needs("read"), dependencies=[Depends(no_query)])
def get_job(request: Request, response: Response, store: StoreDep, job: JobId) -> JobView:
    """One job: configuration, its difference from the control's, attempts and measurements."""
    with store.read() as session:
        response.headers.update(check_cached(request, job_version(session, job)))
        return results.job_view(session, job)


@dataclass(frozen=True)
class EvaluationList:
    """Every evaluation of a job."""

    items: tuple[EvaluationPoint, ...]


@router.get("/jobs/{job}/evaluations", openapi_extra=needs("read"), dependencies=[Depends(no_query)])
def list_evaluations(request: Request, response: Response, store: StoreDep, job: JobId) -> EvaluationList:
    """The validation loss of a job at every evaluated step."""
    with store.read() as session:
        response.headers.update(check_cached(request, job_version(session, job)))
        return EvaluationList(results.evaluations(session, job))


@router.get(
    "/jobs/{job}/evaluations.csv",
    response_class=Response,
    responses={
        200: {"description": "Step and loss.", "content": {"text/csv": {"schema": {"type": "string"}}}}
    },
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
)
def get_evaluations_csv(request: Request, store: StoreDep, job: JobId) -> Response:
    """The validation loss of a job at every evaluated step, as CSV in full precision."""
    with store.read() as session:
        headers = check_cached(request, job_version(session, job), "csv")
        points = results.evaluations(session, job)
    return Response(to_csv([asdict(point) for point in points]), headers=headers, media_type="text/csv")


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


@router.get("/jobs/{job}/progress", openapi_extra=needs("read"))
def list_progress(
    request: Request,
    response: Response,
    store: StoreDep,
    job: JobId,
    query: Annotated[ProgressQuery, fastapi.Query()],
) -> ProgressList:
    """The training loss of a job as stored, which is thinned."""
    with store.read() as session:
        response.headers.update(check_cached(request, job_version(session, job)))
        points = results.progress(session, job, after_step=query.after_step, limit=query.limit)
    return ProgressList(points, points[-1].step if len(points) == query.limit else None)


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

"""A whole sweep's evaluations in one call."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response, StreamingResponse

from headcount.api import results
from headcount.api.caching import NOT_MODIFIED, check_cached
from headcount.api.dependencies import StoreDep, SweepName, no_query
from headcount.api.problems import Problem, responses
from headcount.api.rows import ROW_TYPES, can_write, stream_rows
from headcount.api.security import needs

router = APIRouter(prefix="/api/v1/sweeps/{sweep}", tags=["results"])

_ROWS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The rows as they are read.",
        "content": {
            media.partition(";")[0]: {"schema": {"type": "string", "format": "binary"}}
            for media in ROW_TYPES.values()
        },
    }
}


@router.get(
    "/evaluations.{form}",
    response_class=StreamingResponse,
    responses=responses(404, 406) | NOT_MODIFIED | _ROWS,
    openapi_extra=needs("read"),
    dependencies=[Depends(no_query)],
)
def stream_evaluations(
    request: Request,
    store: StoreDep,
    sweep: SweepName,
    form: Annotated[str, Path(json_schema_extra={"enum": list(ROW_TYPES)})],
) -> Response:
    """Every evaluation of every job of a sweep with the job's axes and seed, a row each.

    Streamed as CSV, JSON lines, or parquet where the service has pyarrow. What a running job adds meanwhile
    may be among the rows or not.
    """
    if form not in ROW_TYPES or not can_write(form):
        forms = ", ".join(f".{form}" for form in ROW_TYPES if can_write(form))
        raise Problem(406, "not_acceptable", f"rows are not to be had as .{form}; there are {forms}")
    with store.read() as session:
        headers = check_cached(request, results.sweep_version(session, sweep), form)
    headers["Content-Disposition"] = f'attachment; filename="{sweep}-evaluations.{form}"'
    if request.state.is_head:
        return Response(headers=headers, media_type=ROW_TYPES[form])
    return StreamingResponse(stream_rows(store, sweep, form), 200, headers, media_type=ROW_TYPES[form])
